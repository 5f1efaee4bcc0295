"""Small scripts with the profile of a run of them, as the patch's tests need both."""

import ast
from dataclasses import replace

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.profile import Optimizer, Profile
from bottleneck_doctor.model.report import Fix, Remedy, Speedup
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.source.reader import quote
from tests.model.profiles import PROFILE

CWD = "/home/ann/cats"
FILE = f"{CWD}/train.py"
HEAD = "from torch.utils.data import DataLoader\n"


def profile_of(text: str, callee: str = "DataLoader", cwd: str = CWD) -> Profile:
    """The profile of a run in which calls of ``callee`` built loaders, and those of AdamW optimizers."""
    loaders, optimizers = [], []
    for node in ast.walk(ast.parse(text.removeprefix("\ufeff"))):
        name = node.func if isinstance(node, ast.Call) else None
        said = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
        if isinstance(node, ast.Call) and said == callee:
            call = quote(node, text.removeprefix("\ufeff"), list)
            place = Location(f"{cwd}/train.py", node.lineno)
            loaders.append(Loader(f"L{len(loaders)}", "dataloader", 1, location=place, call=call))
        if isinstance(node, ast.Call) and said == "AdamW":
            optimizers.append(Optimizer(1, "AdamW", "torch", file=FILE, line=node.lineno))
    run = replace(PROFILE.run, command=["python", "train.py"], script="train.py", cwd=cwd)
    computing = replace(PROFILE.computing, optimizers=optimizers)
    return replace(PROFILE, run=run, loaders=loaders, computing=computing)


def remedy(*treatments: Treatment, line: int = 0, id: str = "workers-auto") -> Remedy:
    """A remedy with these treatments, at a line of the script."""
    place = Location(FILE, line) if line else None
    return Remedy(
        id, "title", "finding", Speedup(1, 2, 3, "replay"), 0.01, None, Fix("text", "snippet", place),
        "hook", "minutes", "", treatments=treatments,
    )  # fmt: skip


def loader_with(line: int, cwd: str = CWD, **arguments: object) -> Remedy:
    """The remedy that builds the loader of a line with other arguments."""
    where = {"file": f"{cwd}/train.py", "line": line}
    return remedy(Treatment("loader", {"where": where, "arguments": arguments}), line=line)
