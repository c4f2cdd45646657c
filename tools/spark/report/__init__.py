"""The report of the retry story of a log: tables, and one page with charts."""
