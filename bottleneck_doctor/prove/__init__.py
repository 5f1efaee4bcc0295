"""Tries remedies on the user's own training: plans the runs, carries them out, measures the gains."""
