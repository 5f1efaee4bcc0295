"""The bottleneck doctor: says what limits a PyTorch training, and what to change first."""

__version__ = "0.1.0"
