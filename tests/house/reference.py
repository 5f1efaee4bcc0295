"""Writes docs/reference/ from the findings, the glossary and the types; git ignores the folder."""

import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.findings.registry import DEVICES, Entry, Reach, entries, offered, pages
from bottleneck_doctor.model.diagnosis import Proposal
from bottleneck_doctor.render.glossary import APPLY, BOUND_PAGES, BOUNDS, EFFORTS, GAPS, MESSAGES, METRICS
from bottleneck_doctor.render.terminal import examples, risks
from bottleneck_doctor.render.words import capital
from tests.house.fields import PROFILE, REPORT, tables_page, types_page
from tests.house.source import ROOT

FOLDER = ROOT / "docs" / "reference"
FIRST = "<!-- written by `make docs`; change the finding, the glossary or the type that it comes from -->\n"


@cache
def reference() -> dict[str, str]:
    """Every page by its path below the folder."""
    found = {f"findings/{entry.id}.md": finding_page(entry) for entry in entries()}
    found |= {"README.md": index(), "remedies.md": remedies_page(), "words.md": words_page()}
    found |= {"report.md": types_page("Report", REPORT), "profile.md": types_page("Profile", PROFILE)}
    found |= {"fleet.md": tables_page()}
    return {name: FIRST + text.rstrip() + "\n" for name, text in found.items()}


def write(folder: Path = FOLDER) -> list[str]:
    """Make the folder hold these pages and no others; the names of those that changed."""
    wanted = reference()
    changed = [name for name in present(folder) if name not in wanted]
    for name in changed:
        (folder / name).unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


def present(folder: Path = FOLDER) -> list[str]:
    """The pages that lie in the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))


def finding_page(entry: Entry) -> str:
    """A finding: its page, and the remedies it offers."""
    remedies = [name for name, findings in offered().items() if entry.id in findings]
    links = ", ".join(f"[{name}](../remedies.md#{name})" for name in remedies) or "none"
    about = f"Cause: [{entry.cause}](../words.md#causes). Remedies: {links}."
    return "\n".join([f"# {entry.id}", "", about, "", pages()[entry.id], ""])


def index() -> str:
    """All findings by cause, all remedies, and where the rest stands."""
    lines = [
        "# Reference",
        "",
        "What `bdoc explain` says, on pages. See also [coverage](../coverage.md).",
        "",
    ]
    lines += ["- [remedies](remedies.md): what to change, how, and what may go wrong"]
    lines += ["- [words](words.md): bounds, causes, metrics, levels, messages, gaps"]
    lines += ["- [report](report.md): the fields of `bdoc report --format json`"]
    lines += ["- [profile](profile.md): the fields of `profile.json`"]
    lines += ["- [fleet](fleet.md): the tables of `bdoc fleet`", "", "## Findings", ""]
    lines += ["| finding | cause | in one sentence |", "|---|---|---|"]
    for entry in sorted(entries(), key=lambda entry: (entry.cause, entry.id)):
        first = pages()[entry.id].partition("\n")[0].replace("|", "\\|")
        lines.append(f"| [{entry.id}](findings/{entry.id}.md) | {entry.cause} | {first} |")
    lines += ["", "```{toctree}", ":hidden:", ":glob:", "remedies", "words", "report", "profile", "fleet"]
    lines += ["findings/*", "```"]
    return "\n".join(lines)


def devices_table() -> str:
    """Where each finding can speak, by what it declares; those alike in one row."""
    alike: dict[Reach, list[str]] = {}
    for entry in entries():
        alike.setdefault(entry.reach, []).append(f"`{entry.id}`")
    lines = [f"| findings | {' | '.join(DEVICES)} | where not, why |", "|---" * (2 + len(DEVICES)) + "|"]
    for reach in sorted(alike, key=lambda one: (-len(one.devices), one.why)):
        yes = ("yes" if name in reach.devices else "–" for name in DEVICES)
        lines.append(f"| {', '.join(alike[reach])} | {' | '.join(yes)} | {reach.why} |")
    return "\n".join(lines)


def remedies_page() -> str:
    """All remedies, each with the findings that offer it."""
    lines = ["# Remedies", "", "Each is offered with a prediction for the run at hand, or not at all.", ""]
    for name, remedies in offered().items():
        lines += [f"## {name}", "", *_remedy(remedies), ""]
    return "\n".join(lines)


def _remedy(remedies: Mapping[str, Proposal]) -> list[str]:
    links = ", ".join(f"[{name}](findings/{name}.md)" for name in remedies)
    first = next(iter(remedies.values()))
    lines = [f"{capital(first.title)}.", "", f"- offered by {links}"]
    lines += [f"- apply: `{first.apply}`, {APPLY[first.apply]}", f"- effort: {first.effort}"]
    lines += [f"- risk: {risk}" for risk in risks(remedies)]
    for text, snippet in examples(remedies):
        lines += ["", f"{capital(text)}:", "", "```python", *snippet.splitlines(), "```"]
    return lines


def words_page() -> str:
    """What the words of a report mean."""
    lines = ["# Words", ""]
    lines += _section("Bounds", {BOUNDS[name]: text for name, text in BOUND_PAGES.items()})
    lines += _section("Causes", {name: text for name, text in SENTENCES.items() if name != "none"})
    lines += _section("Metrics", METRICS)
    lines += _section("How a remedy is applied", APPLY)
    lines += _section("Effort", EFFORTS)
    lines += _section("Messages", MESSAGES)
    lines += _section("Gaps in what was measured", GAPS)
    return "\n".join(lines)


def _section(title: str, texts: Mapping[str, str]) -> list[str]:
    lines = [f"## {title}", ""]
    for name, text in texts.items():
        inset = inspect.cleandoc(text).replace("\n", "\n  ")
        lines += [f"- **{name}**: {inset}"]
    return [*lines, ""]


if __name__ == "__main__":
    print(f"docs/reference: {len(write())} pages written anew")
