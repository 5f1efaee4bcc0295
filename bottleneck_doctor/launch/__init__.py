"""Starts the training and waits for it, adding and taking away nothing that it could notice."""
