"""Commands that change what there is: topics, groups, offsets, waiting messages, retain, backup."""
