"""After the training has ended: times alternatives on its own files and on batches of its shapes."""
