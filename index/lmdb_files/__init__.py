"""The LMDB files of this process: checked before they are opened, opened once, shared."""
