"""``%%bdoc`` in real kernels: the page stands under the cell, and the cell is what it is without."""

import html
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.model.codec import read_profile
from tests.house.source import ROOT

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

CELLS = [
    """
import sys
sys.path.insert(0, {root!r})
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

class Rows(Dataset):
    def __len__(self):
        return 512
    def __getitem__(self, index):
        total = 0
        for step in range(150_000):
            total += step
        return torch.full((8,), index / 512)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
""",
    "%load_ext bottleneck_doctor",
    """%%bdoc
for batch in DataLoader(Rows(), 8):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
print("trained")
steps = 64
""",
    "steps, torch.autograd.backward.__code__.co_filename.endswith('torch/autograd/__init__.py')",
    """%%bdoc -o other.json
for batch in DataLoader(Rows(), 8):
    model(batch).sum().backward()
raise ValueError("the user's")
""",
    "%%bdoc --max-steps 3\nstarted = True",
    "'started' in globals()",
    "from bottleneck_doctor import watch\nwith watch('third.json') as w:\n"
    "    for batch in DataLoader(Rows(), 8):\n        model(batch).sum().backward()\nw",
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The notebook's folder, and its cells after a kernel has run them."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(one.replace("{root!r}", repr(str(ROOT)))) for one in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    kernel = folder / "kernels" / "here"
    kernel.mkdir(parents=True)
    argv = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (kernel / "kernel.json").write_text(f'{{"argv": {argv}, "display_name": "here", "language": "python"}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        client = nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="here", allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )  # fmt: skip
        client.execute()
    return folder, notebook.cells


def _shown(cell: Any, kind: str) -> str:
    return "".join(one.data.get(kind, "") for one in cell.outputs if "data" in one)


def _printed(cell: Any) -> str:
    return "".join(one.text for one in cell.outputs if one.output_type == "stream")


def _errors(cell: Any) -> list[str]:
    return [f"{one.ename}: {one.evalue}" for one in cell.outputs if one.output_type == "error"]


@pytest.mark.slow
def test_the_page_stands_under_the_cell(ran: tuple[Path, list[Any]]) -> None:
    _, cells = ran
    assert [_errors(cell) for cell in cells[:4]] == [[]] * 4
    assert _printed(cells[2]) == "trained\n"
    frame = _shown(cells[2], "text/html")
    assert frame.startswith("<iframe srcdoc=")
    page = html.unescape(frame.partition('srcdoc="')[2].partition('" sandbox')[0])
    for said in ("<html", "the bottleneck doctor", "where a step goes", "loader-in-main"):
        assert said.lower() in page.lower()
    assert len(frame) < 200_000, "it is kept in the notebook's file"
    assert "where a step goes" in _shown(cells[2], "text/plain")
    assert _shown(cells[3], "text/plain") == "(64, True)"


@pytest.mark.slow
def test_lines_of_cells_are_named_and_quoted(ran: tuple[Path, list[Any]]) -> None:
    folder, _ = ran
    profile = read_profile(str(folder / "profile.json"))
    (loader,) = profile.loaders
    assert loader.location is not None
    assert loader.location.file.startswith("In["), loader.location
    assert loader.call is not None
    assert [one.text for one in loader.call.arguments] == ["Rows()", "8"]
    assert profile.run.command == ["notebook"]


@pytest.mark.slow
def test_a_cell_that_fails_fails_and_the_next_one_is_watched(ran: tuple[Path, list[Any]]) -> None:
    folder, cells = ran
    assert _errors(cells[4]) == ["ValueError: the user's"]
    assert read_profile(str(folder / "other.json")).run.exit_status == 1
    assert _printed(cells[5]).startswith("UsageError: %%bdoc: '--max-steps' is no option here")
    assert not _errors(cells[5]), "one line, no traceback"
    assert _shown(cells[6], "text/plain") == "False"
    assert _shown(cells[7], "text/html").startswith("<iframe"), "a block's own repr is the page"
