"""Commands about messages: put, get, tail, query, ingest, export."""
