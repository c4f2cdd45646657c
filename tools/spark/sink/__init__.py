"""The sink: DataFrames and streams are written into a store, each row once."""
