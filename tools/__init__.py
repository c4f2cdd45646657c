"""The command line, the Spark data source, and the job that the demo runs."""
