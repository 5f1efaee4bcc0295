"""Where a loader was built is known to the bracket, through libraries and subclasses."""

from __future__ import annotations

import sys

import pytest

from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.launch.masking import mask
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.run import Machine, Run
from tests.agent.watching import PRELUDE, watched

SCRIPT = (
    PRELUDE
    + """
import sys, types
from functools import partial
from torch.utils.data import DataLoader as Aliased

class Own(DataLoader):
    def __init__(self, data, **more):
        super().__init__(data, batch_size=4, **more)

library = types.ModuleType("library.inner")
exec(compile('''
def build(data, kind):
    return kind(data, batch_size=8)
''', LIBRARY, "exec"), vars(library))

def main():
    data, options = Rows(), {"shuffle": False}
    pair = Aliased(data, 2, num_workers=0), DataLoader(data, 3)
    more = DataLoader(
        data,  # a comment
        batch_size=5,
        **options,
    )
    Own(data, num_workers=0)
    library.build(data, DataLoader)
    partial(DataLoader, num_workers=0)(data, batch_size=6)
main()
"""
)


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> dict[int | None, Loader]:
    """By batch size, which no two of them share."""
    folder = tmp_path_factory.mktemp("built")
    library = folder / "site-packages" / "library.py"
    told = watched(folder, SCRIPT.replace("LIBRARY", repr(str(library))))
    assert told.status == 0, told.stderr
    run = Run(["train.py"], "train.py", str(folder), "", 1.0, 0)
    left = Remains(told.folder, run, Machine("box", "6", "cpu", 2, 2.0), told.origin_ns, mask=mask)
    return {loader.batch_size: loader for loader in assemble(left).loaders}


def said(loader: Loader) -> str:
    """The call in short."""
    if loader.call is None:
        return ""
    shown = [f"{one.name}={one.text}" if one.name else one.text for one in loader.call.arguments]
    return f"{loader.call.function}({', '.join(shown)})"


@pytest.mark.parametrize(
    ("size", "call", "old"),
    [
        (2, "Aliased(data, 2, num_workers=0)", ""),  # two on one line: only the bracket tells them apart
        (3, "DataLoader(data, 3)", "DataLoader(data, 3)"),
        (4, "super().__init__(data, batch_size=4, **=more)", ""),
        (5, "DataLoader(data, batch_size=5, **=options)", "DataLoader(data, batch_size=5, **=options)"),
        (6, "partial(DataLoader, num_workers=0)(data, batch_size=6)", ""),
        (8, "", ""),
    ],
)
def test_the_users_own_call_is_found(
    size: int, call: str, old: str, loaders: dict[int | None, Loader]
) -> None:
    assert said(loaders[size]) == (call if sys.version_info >= (3, 11) else old)


def test_a_loader_names_the_libraries_that_built_it(loaders: dict[int | None, Loader]) -> None:
    assert {size: one.through for size, one in loaders.items() if one.through} == {8: ["library"]}
    location = loaders[8].location
    assert location is not None
    assert location.function == "main"
