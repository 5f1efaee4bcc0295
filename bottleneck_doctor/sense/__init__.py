"""Sensors: read what the machine and the job's processes do, from outside the user's program."""
