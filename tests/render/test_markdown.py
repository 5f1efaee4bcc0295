"""A report in a pull request: the same numbers, and nobody's markup but ours."""

import re
import shlex
import unicodedata
from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.render import render
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked, without_code
from tests.render.reports import HEALTHY, PHASED, TRAIN, TYPICAL, WATCHED

OUR_TAGS = {"<br>", "<sub>", "</sub>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}


def quoted(place: Location) -> FunctionSource | str:
    """Some lines of the script; of other files none."""
    lines = "\n".join(f"line({number})  # ```" for number in range(33, 50))
    return (
        FunctionSource(place.file, "", 33, lines)
        if place.file == TRAIN.file
        else "the file cannot be read here"
    )


def test_a_page_and_a_prompt_are_written_as_accepted() -> None:
    # Not *.md: formatters would rewrite the Python in it.
    asked = render(WATCHED, "prompt", profile="my runs/profile.json", quote=quoted)
    require_golden(
        "watched.md.txt", render(replace(WATCHED, phases=PHASED.phases), "markdown") + "\n\n" + asked
    )


def test_the_prompt_says_how_to_measure_again_and_asks_for_nothing_where_no_remedy_is_known() -> None:
    for command in ("train.py -x 'a b'", "-m cats.train -x", "-- torchrun --nproc-per-node=2 train.py"):
        line = shlex.split(command)
        whole = line[1:] if line[0] == "--" else ["python", *line]
        run = replace(TYPICAL.run, command=whole, script="train.py" if "train.py" in line else "cats.train")
        again = f"\nbdoc run -o after-1.json {command}\nbdoc compare profile.json after-1.json\n"
        assert again in render(replace(TYPICAL, run=run), "prompt")
    ended = render(replace(TYPICAL, run=replace(TYPICAL.run, stopped_by="max-steps")), "prompt")
    assert "after-1.json --max-seconds=39 train.py" in ended
    second = replace(TYPICAL.remedies[1], predicted_speedup=TYPICAL.remedies[0].predicted_speedup)
    two = [TYPICAL.remedies[0], replace(second, combined_speedup=None)]
    assert "`decode-turbo`: instead of those above, to" in render(replace(TYPICAL, remedies=two), "prompt")
    notebook = replace(TYPICAL.run, command=["cats.ipynb"], script=None)
    assert "\n%%bdoc -o after-1.json\n" in render(replace(TYPICAL, run=notebook), "prompt")
    asked = render(HEALTHY, "prompt")
    assert "No remedy is known: change nothing, and say so." in asked
    assert "## " not in asked


def test_an_attack_makes_no_line_of_the_prompt() -> None:
    heads = [line[:3] for line in render(attacked(WATCHED, "x"), "prompt").splitlines() if line[:1] == "#"]
    for attack in ATTACKS.values():
        asked = without_code(render(attacked(WATCHED, attack), "prompt", quote=lambda _, why=attack: why))
        assert [line[:3] for line in asked.splitlines() if line[:1] == "#"] == heads
        assert not [sign for sign in asked if unicodedata.category(sign) == "Cc" and sign != "\n"]


def test_an_attack_adds_no_tags_headings_links_mentions_or_cells() -> None:
    headings = _headings(without_code(render(attacked(WATCHED, "x"), "markdown")))
    for attack in ATTACKS.values():
        whole = render(attacked(WATCHED, attack), "markdown")
        page = without_code(whole)
        assert set(re.findall(r"<[^>]*>", page)) <= OUR_TAGS
        assert [line.split()[0] for line in _headings(page)] == [line.split()[0] for line in headings]
        assert not re.search(r"(?<!\\)\]\(|@\w|(?<!&)#\d", page)
        tables = re.findall(r"(?:^\|.*\|\n)+", whole, re.MULTILINE)
        assert len(tables) == 6
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_a_snippet_cannot_close_its_own_fence() -> None:
    page = render(attacked(TYPICAL, ATTACKS["fence"]), "markdown")
    opened = re.findall(r"^ *(`{3,})python$", page, re.MULTILINE)
    assert opened
    for fence in opened:
        assert len(fence) > len("````")


def _headings(page: str) -> list[str]:
    return [line for line in page.splitlines() if re.match(r"\s*(?:[-*+]\s+|\d+\.\s+)*#+\s", line)]
