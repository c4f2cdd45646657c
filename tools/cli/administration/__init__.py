"""Commands that change what there is: topics, groups, offsets, retain, backup."""
