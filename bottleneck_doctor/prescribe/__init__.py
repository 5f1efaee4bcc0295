"""From a diagnosis to a report: findings examined, remedies predicted, ranked and combined."""

from .write_up import write_up

__all__ = ["write_up"]
