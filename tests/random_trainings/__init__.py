"""Trainings without end: scripts composed from a grammar, by seed, and `bdoc` held against what they measure.

``compose(seed)`` writes a stand-alone PyTorch training: where its records lie, who makes batches of them,
what that costs, how the loop gets at a batch and learns from it, what else the loop does, in the style of
an author drawn by chance. The truth is never a label. ``WITHOUT=part`` in the environment takes a part of
the work out (``parts``), and **the cause is the part whose removal gains most of the wall time of the
training**, from its first line to its last, imports and the making of files excluded. The whole is taken,
not the median step: evaluation, checkpoints and the start of workers lie between steps or fill few of them,
and a user waits for all of it. A part within a tenth of the best gain is right too; where nothing gains
five percent, `balanced` / `none` is right, and beside the part where the gain is hardly more. The data wait
is that of the script's own stopwatch (``TRUTH_FILE``), in the very run that is diagnosed.

    python -m tests.random_trainings --seeds 1-20 --bdoc bdoc     the table (make random)
    python -m tests.random_trainings --seeds 7 --show             the script and its plan; nothing is run
    python -m tests.random_trainings --seeds 1-20 --plain         the truth alone, without bdoc

``--truth FOLDER`` keeps the plain runs: the next time only bdoc is run. ``--keep FOLDER`` keeps scripts,
profiles and reports, ``--json FILE`` the rows. ``--repeats`` takes medians. Times are compared: let nothing
else run on the machine. A seed takes about one minute.
"""
