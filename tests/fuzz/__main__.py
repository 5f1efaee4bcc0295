"""``python -m tests.fuzz``: hostile profiles and files of rows, against all that reads them.

Each case is made from its seed alone: recorded profiles with values swapped for odd ones, cut, with bits
flipped, or bytes that never were a profile; and the same of what the agents write. A profile is refused with
one line, or every command takes it: no other exception, none longer than ``SLOW_S``, and nothing of it is
obeyed by a terminal or a browser.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.facts import KINDS, keys
from bottleneck_doctor.model.codec import decode_profile
from bottleneck_doctor.model.errors import Refused
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.lab import golden

RECORDED = golden.GOLDEN / "accuracy"
NAMES = ("json-per-sample", "asleep-in-line", "two-ranks-healthy", "feeder-thread-busy", "cold-first-epoch")
ROWS = 40  # of a table, in nine of ten cases: still a verdict, and a case takes a fifth of the time
SLOW_S = 2.0
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MARKUP = "<script>alert(7)</script>"
TEXTS = (
    "", "\x1b[2J\x1b]0;x\x07", MARKUP, '"><img src=x onerror=alert(7)>', "[red]x[/red]", "[link=file:///]x[/]",
    "]]>", "::error::x", "\u202eabc", "\ud800", "a" * 5000, "../../etc/x", "{{7*7}}", "%s%n", "| a | b |",
    "`x`", "\n# x\n", "\r\n", "-1", "nan",
)  # fmt: skip
# What names a loader, and where a sample was: what stands in their place is taken apart, too.
ID = re.compile(r"\d+:\d+|.* \(.*:\d+\)")
IDS = (
    ":", "", "::", "1:", ":1", "1:2:3", "\u00b2:\u00b2", "\u0663:\u0661", "1" * 1_000_000, "f (:)", "f (",
    "(:1)", "f (a.py:\u00b2)", "f (a.py:" + "9" * 5000 + ")", "f (a.py:1:2)", "f (a.py:-1)",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**64, -(2**63), 1e-320, 1e308, -0.0, 0.5, 1e18,
    [], {}, [[]], [None], [0] * 50, {"a": 1}, *TEXTS,
)  # fmt: skip


@cache
def recorded(whole: bool) -> list[bytes]:
    """Profiles of real runs, ``whole`` or with the first rows of each table alone."""
    texts = [golden.read(RECORDED, f"{name}.profile.json") for name in NAMES]
    return texts if whole else [json.dumps(_begun(json.loads(text))).encode() for text in texts]


def _begun(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _begun(one) for key, one in value.items()}
    return [_begun(one) for one in value[:ROWS]] if isinstance(value, list) else value


def profile(seed: int) -> bytes:
    """A hostile profile."""
    luck = random.Random(seed)
    base = luck.choice(recorded(luck.random() < 0.1))
    kind = luck.random()
    if kind < 0.05:
        return luck.randbytes(luck.randrange(400))
    if kind < 0.1:
        return base[: luck.randrange(len(base))]
    if kind < 0.25:
        data = bytearray(base)
        for _ in range(luck.randint(1, 8)):
            data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
        return bytes(data)
    if kind < 0.27:
        return luck.choice((b"[", b'{"a":', b"[[],")) * luck.choice((10, 1000, 100_000))
    whole = json.loads(base)
    for _ in range(luck.choice((1, 1, 1, 2, 5, 40))):
        if luck.random() < 0.2:
            _swap_id(whole, luck)
        else:
            _swap(whole, luck)
    return json.dumps(whole).encode("utf-8", "surrogatepass")


def _swap(whole: Any, luck: random.Random) -> None:
    """One value below becomes another of its type, as a rule; else an odd one, nothing, or many of itself."""
    place = whole
    while True:
        inside = [key for key, one in _members(place) if isinstance(one, (dict, list)) and one]
        if not inside or luck.random() < 0.2:
            break
        place = place[luck.choice(inside)]
    keys = [key for key, _ in _members(place)]
    if not keys:
        return
    key = luck.choice(keys)
    way = luck.randrange(20)
    if way < 16:
        place[key] = _like(place[key], luck)
    elif way == 16:
        place[key] = deepcopy(luck.choice(ODD))
    elif way == 17:
        place[key] = place[luck.choice(keys)]
    elif isinstance(place[key], list) and len(place[key]) < 1000:
        place[key] = place[key] * luck.choice((0, 2, 5))
    else:
        place.pop(key)


def _swap_id(whole: Any, luck: random.Random) -> None:
    """One id somewhere, or wherever it stands, becomes another text."""
    found, todo = [], [whole]
    while todo:
        place = todo.pop()
        for key, one in _members(place):
            if isinstance(one, (dict, list)):
                todo.append(one)
            elif isinstance(one, str) and ID.fullmatch(one):
                found.append((place, key))
    if found:
        chosen, other, everywhere = luck.choice(found), luck.choice(IDS), luck.random() < 0.5
        before = chosen[0][chosen[1]]
        for place, key in [one for one in found if everywhere and one[0][one[1]] == before] or [chosen]:
            place[key] = other


def _like(value: Any, luck: random.Random) -> Any:
    """Another value of the same type: a text, a number of another size or sign, fewer or more entries."""
    if isinstance(value, str):
        return luck.choice(TEXTS) + luck.choice(("", value))
    if isinstance(value, (bool, type(None))):
        return not value if isinstance(value, bool) else None
    if isinstance(value, int):
        return luck.choice((-value, value * 10, 0, 1, 2**31, 2**62, -(2**62)))
    if isinstance(value, float):
        return luck.choice((-value, value * 1e-9, value * 1e9, 0.0, 1e-320, 1e300))
    keys = [key for key, _ in _members(value)]
    if keys:
        value[luck.choice(keys)] = deepcopy(value[luck.choice(keys)])
    return value


def _members(place: Any) -> list[tuple[Any, Any]]:
    return list(place.items()) if isinstance(place, dict) else list(enumerate(place))


def examine(data: bytes, used: bool = True) -> str:
    """What became of it: "refused", "read", or "used" by all commands, too. Whatever is wrong is raised."""
    try:
        found = decode_profile(data)
    except Refused as problem:
        if "\n" in str(problem):
            raise ValueError("refused with more than one line") from problem
        return "refused"
    if not used:
        return "read"
    use(found)
    return "used"


def use(found: Profile) -> None:
    """All that the commands do with a profile that was read."""
    from bottleneck_doctor.analyse import gate
    from bottleneck_doctor.analyse.compare import compare
    from bottleneck_doctor.analyse.diagnose import diagnose
    from bottleneck_doctor.analyse.timeline import picture_of
    from bottleneck_doctor.findings.report import write_up
    from bottleneck_doctor.launch.masking import mask
    from bottleneck_doctor.model.report import Condition, Repeat
    from bottleneck_doctor.render import FORMATS, render
    from bottleneck_doctor.render.gate import comparison_text, gate_lines
    from bottleneck_doctor.source.reader import lines_around

    diagnosis = diagnose(found)
    report, picture = write_up(found, diagnosis), picture_of(diagnosis)
    for form in FORMATS:
        quote = partial(lines_around, profile=found, here=".", mask=mask)
        text = render(report, form, picture=picture, details=True, quote=quote)
        if form in ("terminal", "markdown", "prompt"):
            assert not ESCAPES.search(text), f"{form}: a terminal would obey {ESCAPES.search(text)!r}"
        if form == "html":
            assert MARKUP not in text, f"{form}: markup"
            assert "<img src=x" not in text, f"{form}: markup"
    comparison_text(
        compare(report, report), gate.compare_runs([Repeat("x", report)], [Repeat("y", report)], 0.0)
    )
    condition = Condition("data_wait_fraction", ">", 0.5, "x")
    lines = gate_lines(gate.check([Repeat("x", report)], [condition]))
    assert not ESCAPES.search("".join(lines))


def rows(seed: int, folder: Path) -> None:
    """Hostile files of rows and facts in a folder."""
    luck = random.Random(seed)
    for place in range(luck.randint(1, 4)):
        head = wire.IDENTITY.pack(
            wire.MAGIC,
            wire.VERSION if luck.random() < 0.9 else 1,
            wire.ROW.size,
            luck.randrange(1, 9),
            1,
            place,
        )
        data = bytearray(head.ljust(wire.HEADER_BYTES, b"\0"))
        for _ in range(luck.randrange(60)):
            kind = luck.randrange(50)
            words = [luck.choice((0, 1, 7, 10**9, 10**12, -1, 2**63 - 1, -(2**63))) for _ in range(7)]
            words[0] = luck.randrange(10**12) if luck.random() < 0.8 else words[0]
            data += wire.ROW.pack(*words, luck.randrange(5), luck.randrange(3), kind)
        for _ in range(luck.choice((0, 0, 3))):
            data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
        (folder / f"{place}-{place}.rows").write_bytes(bytes(data[: luck.randrange(1, len(data) + 1)]))
        (folder / f"{place}-{place}.facts").write_bytes(b"".join(_facts(luck)))


def _facts(luck: random.Random) -> Iterator[bytes]:
    for _ in range(luck.randrange(12)):
        fact: dict[str, Any] = {"fact": luck.choice(FACTS)}
        for name in luck.sample(FIELDS, luck.randrange(len(FIELDS))):
            fact[name] = luck.choice((*ODD, 1, 2, "train.py", [1, 2, 3, 4]))
        line = json.dumps(fact).encode("utf-8", "surrogatepass")
        yield (line[: luck.randrange(len(line))] if luck.random() < 0.1 else line) + b"\n"


FACTS = sorted(KINDS.values())
FIELDS = sorted({name for kind in KINDS for name in keys(kind)})


def examine_rows(seed: int, used: bool = True) -> str:
    """Files of rows, assembled and then used like any profile."""
    from bottleneck_doctor.assemble.profile import Remains, assemble

    with tempfile.TemporaryDirectory(prefix="bdoc-fuzz-") as name:
        rows(seed, Path(name))
        run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 1.0, 0)
        found = assemble(Remains(run, Machine("box", "6", "cpu", 2, 2.0), 0, folder=Path(name)))
    from bottleneck_doctor.model.codec import encode_profile

    became = examine(encode_profile(found), used)
    if became == "refused":
        raise ValueError("a profile was assembled that nobody reads")
    return f"assembled and {became}"


def one(seed: int, used: bool = True) -> tuple[str, float]:
    """What became of the case of that seed, and the seconds that it took."""
    start = time.perf_counter()
    became = examine_rows(seed, used) if seed % 10 == 9 else examine(profile(seed), used)
    return became, time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Try the seeds; each that fails is told with its number, and makes the status 1."""
    parser = argparse.ArgumentParser(description="Hostile profiles and files of rows.")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--cases", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--used", type=int, default=1, metavar="N", help="each Nth goes through all commands")
    given = parser.parse_args(argv)
    became: Counter[str] = Counter()
    failed, longest = 0, (0.0, 0)
    for seed in range(given.first, given.first + given.cases):
        try:
            what, taken = one(seed, seed // 10 % given.used == 0)
        except Exception:
            failed += 1
            print(f"seed {seed}:\n{traceback.format_exc(limit=-4)}", file=sys.stderr)
            continue
        became[what] += 1
        longest = max(longest, (taken, seed))
        if taken > SLOW_S:
            failed += 1
            print(f"seed {seed}: {taken:.1f} s", file=sys.stderr)
    took = f"longest {longest[0]:.2f} s (seed {longest[1]})"
    print(f"{given.cases} cases: {dict(became)}, {failed} failed; {took}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
