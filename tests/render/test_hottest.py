"""Where a function lies, as short as it can be told."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.render.compose import place


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/ann/cats/train.py", "train.py:7"),
        ("/home/ann/dogs.py", "/home/ann/dogs.py:7"),
        ("/opt/env/lib/python3.11/site-packages/PIL/Image.py", "PIL/Image.py:7"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml/loader.py:7"),
        ("/usr/lib/python3.11/selectors.py", "python3.11/selectors.py:7"),
        ("/usr/lib64/python3.9/json/decoder.py", "python3.9/json/decoder.py:7"),
        ("<string>", "<string>:7"),
    ],
)
def test_a_file_is_seen_from_where_it_is_looked_for(file: str, shown: str) -> None:
    assert place(Location(file, 7, "f"), "/home/ann/cats") == shown


def test_what_lies_nowhere_has_no_place() -> None:
    assert place(None, "/home/ann/cats") == ""
