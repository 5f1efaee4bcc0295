"""Sends what a report concludes to where people already look; a kind of target is a file."""
