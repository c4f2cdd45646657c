"""The settings of a directory: those that are named, remembered, or read off its files."""
