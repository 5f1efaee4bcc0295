"""The pages about GPUs say what is known, and the scripts that are measured know nothing of bdoc."""

import ast

import pytest

from tests.gpu.expected import FOLDER
from tests.gpu.sheet import METHOD, NOT_YET, TITLE
from tests.lab.run import ROOT
from tests.lab.table import gpus


def test_the_published_page_is_such_a_page() -> None:
    text = (ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8")
    assert text.startswith(TITLE + METHOD), "write it anew: tests.gpu.sheet.page"
    assert (NOT_YET in text) == (text.count("\n## ") == 1 and "| training |" not in text)


def test_the_page_about_cpus_says_what_is_known_of_gpus() -> None:
    said = gpus((ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8"))
    page_of_cpus = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert said in page_of_cpus, "write it anew: python -m tests.accuracy --again tests/golden/accuracy"
    assert gpus("# a\n## NVIDIA A, 8 cores\n\n## B\n") == "GPUs: [NVIDIA A, 8 cores; B](accuracy-gpu.md)."


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_truth_is_independent_of_bdoc(path: str) -> None:
    """No script, and nothing that it stands on, imports the package that it is to judge."""
    tree = ast.parse((FOLDER / path).read_text())
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert not [name for name in imported if name.split(".")[0] in ("bottleneck_doctor", "tests")]
