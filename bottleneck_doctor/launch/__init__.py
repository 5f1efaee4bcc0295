"""Starts the training and waits for it, without any change that it could notice."""
