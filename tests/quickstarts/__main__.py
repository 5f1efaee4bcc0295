"""``python -m tests.quickstarts [PAGE ...]`` runs the quick starts and keeps their profiles for the pages.

Best on a machine with nothing else to do: a report tells what strangers take of the cores. Then `make docs`.
"""

import argparse
import tempfile
from pathlib import Path

from tests.house.quoted import KEPT
from tests.lab import golden
from tests.lab.kept import PROFILE, placeless
from tests.quickstarts.pages import QuickStart, quick_starts, type_in


def main() -> int:
    """Record the pages that are named, or all of them."""
    pages = {start.page: start for start in quick_starts()}
    parser = argparse.ArgumentParser(prog="python -m tests.quickstarts", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(pages))
    wanted = parser.parse_args().pages or list(pages)
    if unknown := [name for name in wanted if name not in pages]:
        parser.error(f"no quick start is called {', '.join(unknown)}; there are {', '.join(pages)}")
    return max(_record(pages[name]) for name in wanted)


def _record(start: QuickStart) -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "first-run")
        folder.mkdir()
        done = type_in(start, folder)
        print(f"{start.page}: status {done.returncode}")
        if done.returncode == 0:
            text = placeless((folder / "profile.json").read_text())
            text = text.replace(f"/data/{Path(place).name}", "/data")
            golden.write(KEPT, {start.name + PROFILE: text})
        else:
            print(done.stderr)
        return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
