"""The file for speedscope."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema

from bottleneck_doctor.model.picture import CallPath, CallPaths, Picture
from bottleneck_doctor.render.figures.stacks import speedscope_file
from tests.render.hostile import ATTACKS
from tests.render.reports import TYPICAL
from tests.render.scenes import SAMPLED

SCHEMA = json.loads((Path(__file__).parent / "speedscope" / "file-format-schema.json").read_text())


def written(picture: Picture) -> dict[str, Any]:
    """The file, valid."""
    found: dict[str, Any] = json.loads(speedscope_file(TYPICAL, picture))
    jsonschema.Draft7Validator({**SCHEMA, "$ref": "#/definitions/FileFormat.File"}).validate(found)
    return found


def test_each_role_is_a_profile_and_another_of_what_was_on_a_core() -> None:
    found = written(SAMPLED)
    assert [(one["name"], one["endValue"]) for one in found["profiles"]] == [
        ("the training thread", 98),
        ("the training thread, on CPU alone", 17),
        ("the workers", 389),
        ("the workers, on CPU alone", 188),
        ("other threads", 98),
    ]
    assert found["profiles"][0]["weights"] == [80, 18]
    first = [found["shared"]["frames"][place] for place in found["profiles"][0]["samples"][0]]
    assert [one["name"] for one in first] == ["main", "__next__", "wait"], "outermost first"
    assert (first[1]["file"], first[1]["line"]) == ("torch/utils/data/dataloader.py", 630)


def test_hostile_names_stay_names() -> None:
    for attack in ATTACKS.values():
        path = CallPath([attack, f"{attack} ({attack}:7)", f"f (/a.py:{attack})"], 3)
        found = written(replace(SAMPLED, stacks=[CallPaths(attack, 3, [path])]))
        said = [one["name"] for one in [*found["shared"]["frames"], *found["profiles"]]]
        assert said
        assert [name for name in said if not name.isprintable()] == []
