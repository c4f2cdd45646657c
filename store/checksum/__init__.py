"""CRC-32 and CRC-32C, for Python and for compiled loops."""
