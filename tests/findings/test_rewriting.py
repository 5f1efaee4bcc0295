"""The user's call comes back with other arguments, still Python, and says what became of each."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from bottleneck_doctor.findings.remedies import Code, loader_call
from bottleneck_doctor.model.code import Argument, SourceCall
from bottleneck_doctor.model.loops import Loader
from tests.render.drawn import require_golden

WANTED = {"num_workers": 2, "drop_last": True}


def loader(source: str = "", through: tuple[str, ...] = (), **arguments: str) -> Loader:
    """A loader that was built by this call."""
    call = _call(source) if source else None
    return Loader("1:1", "dataloader", 1, arguments=arguments, through=list(through), call=call)


def _call(source: str) -> SourceCall:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    arguments = [
        Argument(ast.unparse(one.value), "*") if isinstance(one, ast.Starred) else Argument(ast.unparse(one))
        for one in node.args
    ]
    arguments += [Argument(ast.unparse(one.value), one.arg or "**") for one in node.keywords]
    return SourceCall(ast.unparse(node.func), arguments)


KNOWN = {"num_workers": "0", "persistent_workers": "False", "collate_fn": "partial", "batch_size": "8"}
BY_PYG, FAST, COLLATE = ("torch_geometric",), Code("Fast(train)"), {**WANTED, "collate_fn": Code("collate")}
CALLS: list[tuple[Loader, dict[str, Any]]] = [
    (loader("DataLoader(d)"), WANTED),
    (loader("data.DataLoader(ds, num_workers=args.jobs)"), WANTED),
    (loader("loader_cls(ds, 64, True, None, None, 0)"), WANTED),
    (loader("DataLoader(ds, num_workers=2, drop_last=True)"), WANTED),
    (loader("DataLoader(ds, num_workers=0, drop_last=False, **options)"), WANTED),
    (loader("DataLoader(ds, num_workers=0, **options)"), WANTED),
    (loader("DataLoader(*args, batch_size=4)"), WANTED),
    (loader(f"DataLoader(Photos({'root, ' * 12}1), batch_size=64, num_workers=0, collate_fn=f)"),
     {"num_workers": 4, "persistent_workers": True}),
    (loader("DataLoader(ds, SIZE, num_workers=jobs, persistent_workers=jobs > 0, collate_fn=f)", **KNOWN),
     {"num_workers": 2, "persistent_workers": True, "collate_fn": Code("g"), "batch_size": 8}),
    (loader("DataLoader(ds, num_workers=4, prefetch_factor=8)"), {"num_workers": 0}),
    (loader(prefetch_factor="8"), {"num_workers": 0}),
    (loader("pyg.DataLoader(ds, 64)", BY_PYG), {"num_workers": 2}),
    (loader("pyg.DataLoader(ds, 64, 0)", BY_PYG), {"num_workers": 2}),
    (loader(through=("accelerate", "transformers"), batch_size="8"), COLLATE),
    (loader(through=("lightning",), batch_size="8"), COLLATE),
    (loader(through=("timm", "hydra"), batch_size="8"), COLLATE),
    (loader("DataLoader(train, 8)"), {"dataset": FAST}),
    (loader("DataLoader(dataset=train)"), {"dataset": FAST}),
    (loader("DataLoader(*both)"), {"dataset": FAST}),
    (loader(), {"dataset": FAST}),
]  # fmt: skip


def test_the_users_call_is_written_anew_as_accepted() -> None:
    """Still Python, where the call was read; each argument that changed says what it was."""
    written = [loader_call(one, **wanted) for one, wanted in CALLS]
    for (one, _), text in zip(CALLS, written, strict=True):
        assert one.call is None or ast.parse(text)
    require_golden("written_calls.txt", "\n\n".join(written) + "\n", Path(__file__).parent)
