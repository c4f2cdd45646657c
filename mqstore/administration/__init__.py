"""What an operator asks for: deletions, offsets that are moved, retention at once, a backup."""
