"""The shelf: one ailment, with its remedies, is one file; the folder is the registry."""
