"""One record as bytes: its formats and flags, and the compiled loops that walk over records."""
