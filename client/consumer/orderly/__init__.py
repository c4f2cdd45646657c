"""Consumption in order: each queue by one member of the group, one batch at a time."""
