"""What findings about the making of batches say about the user's own lines, from stack samples."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ..analyse.hot_lines import HotLines, LineShare, forced_lines, hot_lines
from ..analyse.loop_without_loader import is_fed_back
from ..analyse.predict import helper_threads, too_many_feeders
from ..analyse.shares import NOTICED
from ..model.code import FunctionSource, Location
from ..model.diagnosis import Change, Diagnosis, Proposal
from ..model.report import Evidence, Fix
from ..source import code
from .facts import place_of, waits
from .registry import given
from .remedies import MOSTLY, each, priced

STACKS = "stack samples"
LONGEST_QUOTE = 68  # letters of a statement in a snippet, four columns in
PARSING_CALLS = frozenset("loads strptime fromisoformat read_csv read_json fromstring literal_eval".split())
DATABASE_CALLS = frozenset("execute executemany executescript fetchall fetchone".split())
PARSERS = ("json", "csv", "xml", "yaml", "ast", "orjson", "simplejson", "datetime")
FRAMES = ("pandas", "pyarrow")  # they parse only where the line calls it so
PARSES, LOOPS, QUERIES, PICKS = "parses", "loops", "queries", "picks"
SEEN = {
    PARSES: "it parses text",
    LOOPS: "it runs in a loop, for one element after the other",
    QUERIES: "it asks a database",
    PICKS: "it reads a data frame",
}
# They draw random numbers only if the user's source asks for it.
PLAIN = ("numpy", "torch", "scipy", "zlib", "PIL", "cv2", "skimage", "librosa", "soundfile")
TEXTS = ("tokenizers", "transformers", "re", "sentencepiece", "tiktoken", "nltk", "spacy")
RANDOM = re.compile(r"rand|choice|shuffle|permut|sample|noise|generator")
CHANCE = re.compile(rf"{RANDOM.pattern}|rng|normal|uniform|integers")
ALSO = 0.2  # of the hottest line's samples, from which a line tells whether chance is in the work (chosen)
NAMED_FROM = 0.2  # of the making of batches; a line with less is not worth its name in a report (chosen)


def lines_of(diagnosis: Diagnosis) -> HotLines:
    """The user's lines in which the batches of the training loop are made."""
    return hot_lines(diagnosis.profile, diagnosis.loader, diagnosis.loop)


def asks_or_parses(diagnosis: Diagnosis) -> bool:
    """Whether one of the user's lines that make batches asks a database or parses text: such a data set does
    more than to pick rows, however quickly."""
    places = [one.location for one in lines_of(diagnosis).lines if one.share >= NAMED_FROM]
    known = [found for place in places if (found := statement_of(diagnosis, place))]
    return any(called_in(statement) & (DATABASE_CALLS | PARSING_CALLS) for _, statement in known)


def statement_of(diagnosis: Diagnosis, place: Location | None) -> tuple[FunctionSource, ast.stmt] | None:
    """The user's function and its statement at a line, None where they are not kept."""
    source = code.source_at(diagnosis.profile.sources, place) if place is not None else None
    statement = code.statement_at(source, place.line) if source is not None and place is not None else None
    return (source, statement) if source is not None and statement is not None else None


def called_in(statement: ast.stmt) -> set[str]:
    """What a statement calls, by the last part of its name."""
    return {code.called(call) for call in code.calls_in(statement)}


def what_it_does(diagnosis: Diagnosis, place: Location, library: str) -> str:
    """Whether the line parses, or loops over elements; "" where neither is proven."""
    if library in PARSERS:
        return PARSES
    found = statement_of(diagnosis, place)
    called = called_in(found[1]) if found is not None else set()
    if called & DATABASE_CALLS:
        return QUERIES
    if called & PARSING_CALLS:
        return PARSES
    if library in FRAMES:
        return PICKS
    return LOOPS if found is not None and code.is_repeated(found[0], place.line) else ""


def computes(diagnosis: Diagnosis, lines: HotLines) -> bool:
    """Whether the hottest line, or one of those below it, calculates with numbers or looks them up."""
    hottest = lines.hottest
    if hottest is None:
        return False
    below = [one for one in lines.lines if ALSO * hottest.share <= one.share < hottest.share]
    known = [statement_of(diagnosis, one.location) for one in (hottest, *below)]
    return any(code.calculates(one[1]) for one in known if one is not None)


def is_fixed(diagnosis: Diagnosis, lines: HotLines) -> bool:
    """Whether the sources of the hottest line and of those below are known and use nothing random."""
    hottest = lines.hottest
    if hottest is None or lines.library not in ("", *PLAIN, *PARSERS, *FRAMES, *TEXTS):
        return False
    collate = diagnosis.loader.collate if diagnosis.loader is not None else ""
    below = [one.location for one in lines.lines if ALSO * hottest.share <= one.share < hottest.share]
    # without the collate function, which a `partial` may hide
    made = [one for one in below if one.function != collate and "collate" not in one.function]
    places = [hottest.location, *made]
    sources = [code.source_at(diagnosis.profile.sources, one) for one in places]
    known = [one for one in sources if one is not None]
    chance = any(RANDOM.search(one.text) for one in known)
    fed_back = is_fed_back(diagnosis.profile, diagnosis.without_loader)
    return len(known) == len(sources) > 0 and not chance and not fed_back


def is_drawn_later(diagnosis: Diagnosis, lines: HotLines) -> bool:
    """Whether the callers draw nothing random before the hottest line; randomness then comes after it."""
    hottest, sources = lines.hottest, diagnosis.profile.sources
    if hottest is None:
        return False
    way = [one.location for one in lines.lines if one.share >= hottest.share and one != hottest]
    known = [(source, place.line) for place in way if (source := code.source_at(sources, place))]
    before = [source.text.splitlines()[: line - source.first + 1] for source, line in known]
    return len(known) == len(way) > 0 and not any(CHANCE.search("\n".join(one)) for one in before)


def named(place: Location) -> str:
    """``file:line`` without the directory, for sentences; the report also prints the whole path."""
    return f"{place.file.replace(chr(92), '/').rpartition('/')[2]}:{place.line}"


def line_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """The user's hottest line with its share of the making of batches; nothing where none was seen."""
    lines, sources = lines_of(diagnosis), diagnosis.profile.sources
    line = lines.hottest
    if line is None or line.share < NAMED_FROM:
        return []
    inside, below = f", mostly inside {lines.library}" if lines.library else "", function_below(diagnosis)
    runs = f"{named(line.location)} {code.in_short(sources, line.location)}".rstrip()
    if below is not None:
        line, runs = below, f"{named(below.location)} {below.location.function.rpartition('<locals>.')[2]}"
    return [Evidence(f"share of data-loading samples in {runs}{inside}", "line_share", line.share, STACKS)]


def function_below(diagnosis: Diagnosis) -> LineShare | None:
    """The function below the hottest line that holds most of the samples, by the line that defines it."""
    found = lines_of(diagnosis).function
    source = code.source_at(diagnosis.profile.sources, found.location) if found is not None else None
    if found is None or source is None:
        return None
    return replace(found, location=replace(found.location, line=source.first))


def hottest_place(diagnosis: Diagnosis) -> Location | None:
    """The user's hottest function or line where one is worth naming; else where the data set is defined."""
    line = function_below(diagnosis) or lines_of(diagnosis).hottest
    return line.location if line is not None and line.share >= NAMED_FROM else place_of(diagnosis)


def quoted(diagnosis: Diagnosis, place: Location | None) -> str:
    """The user's statement at a line, "" where it is not kept, holds others, or is long."""
    found = statement_of(diagnosis, place)
    if found is None or any(isinstance(one, ast.stmt) for one in ast.iter_child_nodes(found[1])):
        return ""
    text = ast.unparse(found[1])
    return text if len(text) <= LONGEST_QUOTE and "\n" not in text else ""


def rarely(condition: str, statement: str) -> str:
    """The user's statement below a condition."""
    return f"if {condition}:\n    {statement}"


def crowded(diagnosis: Diagnosis) -> bool:
    """Whether threads oversubscribe the cores, so that more workers or cores are not the first remedy."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if scenario is not None and too_many_feeders(scenario):
        return True
    if scenario is None:
        return False
    if loader is not None and diagnosis.verdict.cause == "input.oversubscribed":
        return waits(diagnosis)  # else workers take the model's cores, and cheaper batches help
    return helper_threads(scenario, diagnosis.inputs, diagnosis.host) > 1.0


def crowd_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How many threads and processes feed a loop without a loader, and what they take from it."""
    scenario = diagnosis.scenario
    if scenario is None or not scenario.feeders.count or diagnosis.step_s <= 0:
        return []
    share, count = scenario.crowded / diagnosis.step_s, float(scenario.feeders.count)
    text = "share of the step for which they keep a core or the interpreter's lock from it"
    return [
        Evidence("threads and processes that feed the loop", "feeders", count, STACKS),
        Evidence(text, "held_share", share, "schedstat, stack samples"),
    ]


SELDOM = "if N % 64 == 0:\n    {}\n# or once, after training; never for what can be made again"
COMMIT = "CONNECTION.commit()"
WRITE_LESS = Proposal(
    id="write-less",
    title="write less often: commit every 64th sample, and fsync nothing that can be made again",
    fix=Fix("wait for the disk less often", SELDOM.format(COMMIT)),
    basis="bound",
    risk="what was written since the last commit is lost in a crash",
)


def write_less(diagnosis: Diagnosis) -> tuple[Proposal, Evidence]:
    """The remedy for writes that are waited for, at the line that waits most, and what ends with them."""
    lines, inputs = forced_lines(diagnosis.profile, diagnosis.loader, diagnosis.loop), diagnosis.inputs
    place = lines[0].location if lines else place_of(diagnosis) or diagnosis.source
    left = max(0.0, 1 - sum(one.cpu_share or 0.0 for one in lines))
    most = Change(storage=0, cpu=left) if left > NOTICED else None  # else making batches is little but that
    remedy = WRITE_LESS.at(place, SELDOM.format((lines and quoted(diagnosis, place)) or COMMIT))
    spent, text = inputs.storage + inputs.reading, "time per batch in writes, asleep and in the kernel"
    evidence = Evidence(text, "fetch_written_s", spent, "wait channels, getrusage")
    return priced(remedy, given(diagnosis.scenario), *each(storage=MOSTLY), most=most), evidence
