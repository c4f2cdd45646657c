"""The command `mqstore serve`."""
