"""Findings: why a training is slow and what to change, by family; their ranking; the report."""
