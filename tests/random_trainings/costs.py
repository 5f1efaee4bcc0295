"""What is done with a record before it is a sample, and how long that takes."""

from __future__ import annotations

import random

from tests.random_trainings.draft import Draft


def as_it_is(draft: Draft, ms: float, choice: random.Random) -> None:
    draft.define("""
        def $prepare(row):
            return row
        """)


def _python(draft: Draft, ms: float, choice: random.Random) -> None:
    kind, rounds_a_ms = choice.choice([(PY_CHECKSUM, 16000), (PY_WORDS, 5500), (PY_RECORD, 5000)])
    draft.constant("ROUNDS", max(1, round(ms * rounds_a_ms)), "input")
    draft.define(kind)
    if "json" in kind:
        draft.needs("import json")


PY_CHECKSUM = """
    def $prepare(row):
        state = 7
        for value in range(ROUNDS):
            state = (state * 31 + value) & 0xFFFF
        row = row.copy()
        row[0] += state * 1e-6
        return row
    """
PY_WORDS = """
    TEXT = ["The quick,", "brown", "Fox.", "jumps", "over", "a", "Lazy", "dog;"] * (ROUNDS // 8 + 1)
    KNOWN = {word: number for number, word in enumerate("the quick brown fox jumps over a lazy dog".split())}


    def $prepare(row):
        ids = []
        for word in TEXT[:ROUNDS]:
            ids.append(KNOWN.get(word.strip(".,;").lower(), 0))
        row = row.copy()
        row[0] += (sum(ids) % 100) * 1e-4
        return row
    """
PY_RECORD = """
    LINE = json.dumps({"values": [round(k * 0.37, 3) for k in range(ROUNDS)]})


    def $prepare(row):
        # one record is one line of JSON
        values = json.loads(LINE)["values"]
        total = sum(float(v) for v in values)
        row = row.copy()
        row[0] += (total % 1.0) * 1e-3
        return row
    """


def _numpy(draft: Draft, ms: float, choice: random.Random) -> None:
    kind, side, unit_ms = choice.choice([(NP_BLUR, 64, 0.07), (NP_MEDIAN, 48, 0.1)])
    draft.constant("SIDE", side)
    draft.constant("PASSES", max(1, round(ms / unit_ms)), "input")
    draft.define(kind)


NP_BLUR = """
    FILTER = np.exp(-np.linspace(0, 3, SIDE // 2 + 1))


    def $prepare(row):
        picture = np.resize(row, (SIDE, SIDE)) if PASSES else row
        for _ in range(PASSES):
            picture = np.fft.irfft2(np.fft.rfft2(picture) * FILTER)
        return np.resize(picture.astype(np.float32), WIDTH) if PASSES else row
    """
NP_MEDIAN = """
    def $prepare(row):
        picture = np.resize(row, (SIDE, SIDE)) if PASSES else row
        for _ in range(PASSES):
            around = np.stack([np.roll(picture, shift, axis=0) for shift in (-1, 0, 1)])
            picture = np.median(around, axis=0)
        return picture.ravel()[:WIDTH].astype(np.float32)
    """


def _torch(draft: Draft, ms: float, choice: random.Random) -> None:
    kind, side, unit_ms = choice.choice(
        [(T_RESIZE, 48, 0.1), (T_RESIZE, 96, 0.3), (T_MEDIAN, 40, 0.25), (T_MEDIAN, 96, 0.8)]
    )
    draft.constant("SIDE", side)
    draft.constant("PASSES", max(1, round(ms / unit_ms)), "input")
    draft.needs("from torch.nn import functional as F")
    draft.define(kind)


T_RESIZE = """
    def $prepare(row):
        if not PASSES:
            return row
        picture = torch.from_numpy(np.resize(row, (1, 1, SIDE, SIDE)))
        for _ in range(PASSES):
            picture = F.interpolate(picture, scale_factor=2, mode="bicubic")[..., ::2, ::2]
        return picture.reshape(-1)[:WIDTH].numpy().copy()
    """
T_MEDIAN = """
    def $prepare(row):
        if not PASSES:
            return row
        picture = torch.from_numpy(np.resize(row, (1, 1, SIDE, SIDE)))
        for _ in range(PASSES):
            picture = F.unfold(picture, 3, padding=1).median(1).values.view(1, 1, SIDE, SIDE)
        return picture.reshape(-1)[:WIDTH].numpy().copy()
    """


def _sleep(draft: Draft, ms: float, choice: random.Random) -> None:
    draft.constant("PAUSE", round(max(ms, 0.15) / 1000, 5), "input")
    draft.define("""
        def $prepare(row):
            # the annotation service allows so many requests a second
            if PAUSE:
                time.sleep(PAUSE)
            return row
        """)


def _lock(draft: Draft, ms: float, choice: random.Random) -> None:
    draft.constant("HELD", round(max(ms, 0.15) / 1000, 5), "input")
    draft.needs("import multiprocessing")
    draft.define("LICENCE = multiprocessing.Lock()")
    draft.define("""
        def $prepare(row):
            # one seat: workers take turns
            if HELD:
                with LICENCE:
                    time.sleep(HELD)
            return row
        """)


COSTS = {"python": _python, "numpy": _numpy, "torch": _torch, "sleep": _sleep, "lock": _lock}
