"""Reads the user's Python: text, calls, names, what a line is for; and frames of call paths."""
