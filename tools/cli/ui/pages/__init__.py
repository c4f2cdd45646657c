"""What each page of `mqstore ui` shows, read from an open store; how it looks is in the templates."""
