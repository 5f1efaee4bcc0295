"""Tries remedies on the user's own training: plans the runs, carries them out, says what was gained."""
