"""Trainings by users who do unusual things: what they print must be the same plainly and under bdoc."""
