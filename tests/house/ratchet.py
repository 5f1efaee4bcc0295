"""``python -m tests.house.ratchet``: prints the numbers that may only go down, and lowers ratchet.json.

With ``--keep`` the file stays as it is. A change that needs more of one number takes it away elsewhere.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.house import words
from tests.house.source import PACKAGE, Source, house_files, python_sources, tree

FILE = Path(__file__).with_name("ratchet.json")
# In the comment of a constant that was chosen by hand, without a source.
UNSOURCED = re.compile(r"\((?:ours|chosen)\b|\[catalogue")
Numbers = dict[str, int]


def counted() -> dict[str, Numbers]:
    """The numbers of this tree, as ratchet.json holds them."""
    package = python_sources(f"{PACKAGE}/")
    sizes = {
        "lines of the package": sum(len(one.text.splitlines()) for one in package),
        "lines of the tests": sum(len(one.text.splitlines()) for one in python_sources("tests/")),
        "tracked files": len(house_files()),
        "constants without a source": sum(len(list(unsourced(one))) for one in package),
        "fields of Scenario": sum(scenario_fields(one) for one in python_sources(f"{PACKAGE}/model/")),
    }
    return {"sizes": sizes, "words in the package": words.counts(package)}


def unsourced(source: Source) -> Iterator[str]:
    """Names given numbers outside of functions, if the comment on their lines, or above, has the mark."""
    lines = source.text.splitlines()
    bodies = [tree(source).body, *(one.body for one in tree(source).body if isinstance(one, ast.ClassDef))]
    for node in (one for body in bodies for one in body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if not any(
            isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in ast.walk(node)
        ):
            continue
        first = node.lineno - 1
        while first and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        if UNSOURCED.search(" ".join(one.partition("#")[2] for one in lines[first : node.end_lineno])):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)]
            yield from (name.id for name in names)


def scenario_fields(source: Source) -> int:
    """Fields of the class that the replay is given."""
    found = [one for one in tree(source).body if isinstance(one, ast.ClassDef) and one.name == "Scenario"]
    return sum(isinstance(field, ast.AnnAssign) for one in found for field in one.body)


def read() -> dict[str, Numbers]:
    """What the file allows."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def lowered(allowed: dict[str, Numbers], now: dict[str, Numbers]) -> dict[str, Numbers]:
    """The file after this tree: every number the lower of both; words that are gone are left out."""
    return {
        part: {name: min(number, allowed[part].get(name, 0)) for name, number in numbers.items() if number}
        for part, numbers in now.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the sizes, and lower the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.ratchet", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the file as it is")
    given = parser.parse_args(argv)
    now, allowed = counted(), read()
    for name, number in now["sizes"].items():
        print(f"{number:7} {name} (at most {allowed['sizes'][name]})")
    print(f"{sum(now['words in the package'].values()):7} words to replace in the package")
    if not given.keep:
        FILE.write_text(json.dumps(lowered(allowed, now), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
