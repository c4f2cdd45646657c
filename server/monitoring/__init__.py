"""The state of a server for machines: /metrics in Prometheus' text, /health, on a port of their own."""
