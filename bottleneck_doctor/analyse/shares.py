"""The shares of a whole at which rules of analysis and findings begin: one scale for all.

Where a rule needs another number, it stands next to the rule with its reason.
"""

TRACE = 0.02  # of a step: less is noise of its clocks (chosen)
LITTLE = 0.05  # of a step, or of stack samples: less is chance (chosen)
NOTICED = 0.1  # of a step, or of its samples: enough to be named [TensorBoard plugin of the PyTorch profiler]
PART = 0.2  # of the samples of one call: enough to say what the call is for (chosen)
LARGE_PART = 0.3  # of a thread's time: enough to be in the way of another thread (chosen)
MOST = 0.5  # more than half
FEW_SAMPLES = 5  # of a stretch of the loop: fewer tell nothing of it (chosen)
NEARLY_ALL = 0.8  # of a step, or of its samples: the rest is noise (chosen)
ALL_BUT_NOISE = 0.9  # the rest is what clocks, counts and samples are off by (chosen)
