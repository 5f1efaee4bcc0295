"""Work on whole pictures that are cropped afterwards is read from the source."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.source.purpose import is_shrunk_later


def shrunk(text: str, line: int) -> bool:
    return is_shrunk_later(FunctionSource("train.py", "__getitem__", 1, text), line)


@pytest.mark.parametrize(
    "later",
    [
        "x = crop(x, 64)",
        "y = cv2.resize(x, (64, 64))",
        "if self.late:\n        x = self.shrunk(x, left, top)",
        "x = x[top : top + 64, left : left + 64]",
        "rows, columns = draw()\n    return x[:, rows, columns].copy()",
        "y = x / 255\n    return center_crop(y)",
    ],
)
def test_what_is_cropped_after_the_line(later: str) -> None:
    assert shrunk(f"def get(self, i):\n    x = blur(self.pictures[i])\n    {later}\n", 2)


@pytest.mark.parametrize(
    "text",
    [
        "def get(self, i):\n    x = crop(self.pictures[i])\n    x = blur(x)\n",  # cropped before
        "def get(self, i):\n    x = blur(self.pictures[i])\n    z = crop(self.masks[i])\n",  # another picture
        "def get(self, i):\n    x = blur(self.pictures[i])\n    x[..., 0] = x[..., 0] + 1\n",  # one channel
        "def get(self, i):\n    x = blur(self.pictures[i])\n    for a in r:\n        for b in r:\n"
        "            s += x[a, b]\n",  # element by element
        "def get(self, i:\n",  # no Python
    ],
)
def test_what_is_not(text: str) -> None:
    line = 3 if "x = blur(x)" in text else 2
    assert not shrunk(text, line)
