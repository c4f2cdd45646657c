"""Figures of stores and clients by topic and group, for Prometheus and OpenTelemetry; traces."""
