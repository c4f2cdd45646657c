"""Commands about dead letters: list, show, resend, export, purge."""
