"""``--no-paths``: what names people and customers is gone from the profile; what is judged is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.commands.hide_paths import _each, _text, _word, pathless
from bottleneck_doctor.model.codec import decode_profile, encode_profile, read_profile
from bottleneck_doctor.prescribe import write_up
from tests.commands.running import bdoc, script
from tests.lab.golden import GOLDEN, read

KEPT = GOLDEN / "accuracy"
SALT = b"salt"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("/home/ann/acme/train.py", ["ann", "acme"]),
        ("/mnt/acme corp/ann lee.csv", ["acme", "ann", "corp", "lee"]),
        ("Rows.__getitem__ (/home/ann/acme/rows.py:12)", ["ann", "acme"]),
        ("np.load('acme/ann.npy')", ["acme", "ann"]),
        ('open("/data/acme/x.bin")', ["data/", "acme"]),
        ("~/acme/x", ["acme"]),
    ],
)
def test_names_of_folders_and_data_files_go(text: str, gone: list[str]) -> None:
    assert [name for name in gone if name in _text(text, SALT)] == []


@pytest.mark.parametrize(
    "text",
    [
        "12.5 MB/s of 1/2 the samples",
        "/proc/self/io",
        "/usr/lib/python3.11/queue.py",
        "https://docs.python.org/3/library/io.html",
        "a / b",
        "return x / 255.0",
    ],
)
def test_what_is_no_name_of_the_users_stays(text: str) -> None:
    assert _text(text, SALT) == text


def test_scripts_keep_their_names_and_libraries_their_place() -> None:
    assert _text("/home/ann/acme/train.py", SALT).endswith("/train.py")
    inside = _text("/home/ann/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", SALT)
    assert inside.endswith("/python3.11/site-packages/torch/nn/modules/module.py")
    assert _text("/a/b", SALT).startswith(_text("/a", SALT) + "/"), "what lies in a folder still does"
    assert _word("--data=acme/ann.csv", SALT).startswith("--data=")
    assert _word("--data=acme/ann.csv", SALT).endswith(".csv")


@pytest.mark.parametrize(
    "name", ["cold-each-epoch", "zip-reopened", "checkpoint-each-epoch", "asleep-in-line"]
)
def test_the_diagnosis_stays_as_it_was(name: str) -> None:
    profile = decode_profile(read(KEPT, f"{name}.profile.json"))
    found = pathless(profile)
    before, after = write_up(profile), write_up(found)
    assert after.verdict == before.verdict
    assert [one.id for one in after.remedies] == [one.id for one in before.remedies]


def test_members_of_objects_are_names_too() -> None:
    assert _each({"/a/b": [1, "/c"]}, str.upper) == {"/A/B": [1, "/C"]}


@pytest.mark.slow
def test_a_run_leaves_no_name_in_its_profile(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    source = "import json, sys, torch\nopen('acme-data/ann', 'w') if 0 else None\nprint(len(sys.argv))\n"
    told = bdoc(folder, "-q", "--no-paths", script(folder, source), "--data", str(tmp_path / "ann.csv"))
    assert told.status == 0, told.err
    text = encode_profile(read_profile(folder / "profile.json")).decode()
    assert "acme" not in text
    assert "ann.csv" not in text
    assert "train.py" in text
