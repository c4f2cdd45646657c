"""Commands that run as Spark jobs: verify, export, rebuild-queues, report."""
