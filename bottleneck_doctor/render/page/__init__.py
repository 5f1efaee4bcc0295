"""Pages that stand alone: one file with its style, scripts and charts, which asks nobody for anything."""
