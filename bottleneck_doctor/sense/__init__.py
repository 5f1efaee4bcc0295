"""Sensors: what the machine and the job's processes do, read from outside the user's program."""
