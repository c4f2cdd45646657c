"""The command `mqstore top`: what a store is doing, look after look."""
