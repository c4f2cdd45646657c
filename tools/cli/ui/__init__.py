"""The command `mqstore ui`: a store as pages of a browser on the same machine."""
