"""Sends what a report concludes to where people already look."""
