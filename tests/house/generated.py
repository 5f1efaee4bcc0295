"""``python -m tests.house.generated`` (`make docs`): quotations as they are today, and docs/reference/."""

from __future__ import annotations

from pathlib import Path

from tests.house import quoted, reference
from tests.house.source import ROOT


def main(pages: tuple[Path, ...] = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))) -> None:
    """Put today's quotations into pages, and name those that changed."""
    for path in pages:
        old = path.read_text(encoding="utf-8")
        new = quoted.anew(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"written anew: {path.name}")


if __name__ == "__main__":
    main()
    print(f"docs/reference: {len(reference.write())} pages written anew")
