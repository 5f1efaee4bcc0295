"""The user's call comes back with other arguments, still Python, and says what became of each."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

from bottleneck_doctor.findings.remedies import LINE, WORKERS, Code, in_framework, loader_call, on_loader
from bottleneck_doctor.model.code import Argument, SourceCall
from bottleneck_doctor.model.diagnosis import BatchCost, StepCost
from bottleneck_doctor.model.loops import Loader
from tests.findings.builders import steady_run
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
AS_IT_IS = Code("torch.utils.data.default_convert")
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
    (loader(through=("skorch",)), {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": True}),
    (loader(f"DataLoader(ds, collate_fn=make_{'x' * 30}, num_workers=0)"), {"collate_fn": AS_IT_IS}),
    (loader(through=("transformers",), batch_size="8"), {"batch_size": 16}),
    (loader("DataLoader(train, 8)"), {"dataset": FAST}),
    (loader("DataLoader(dataset=train)"), {"dataset": FAST}),
    (loader("DataLoader(*both)"), {"dataset": FAST}),
    (loader(), {"dataset": FAST}),
]  # fmt: skip


def test_the_users_call_is_written_anew_as_accepted() -> None:
    """Still Python, where the call was read; each argument that changed says what it was."""
    written = [loader_call(one, **wanted) for one, wanted in CALLS]
    for text in written:
        assert ast.parse(text)
        assert max(map(len, text.splitlines())) <= LINE
    require_golden("written_calls.txt", "\n\n".join(written) + "\n", Path(__file__).parent)


def test_a_framework_that_builds_the_loader_or_owns_the_loop_gets_its_own_argument() -> None:
    """A report shows the text alone of a remedy that is not its first and takes several lines."""
    setting = {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": True}
    by_trainer = on_loader(WORKERS, loader(through=("transformers",), prefetch_factor="None"), **setting)
    assert by_trainer.fix.text == (
        "start workers: TrainingArguments(..., dataloader_num_workers=2, dataloader_persistent_workers=True)"
    )
    by_lightning = on_loader(WORKERS, loader(through=("lightning",)), **setting)
    assert by_lightning.fix.text == "start workers: DataLoader(..., num_workers=2, persistent_workers=True)"
    assert on_loader(WORKERS, loader("DataLoader(d)"), **setting).fix.text == WORKERS.fix.text
    for library, remedy, written in (
        ("lightning", "checkpoint-less", "every_n_train_steps=10 * EVERY"),
        ("pytorch_lightning", "ddp-no-sync", "accumulate_grad_batches=4"),
        ("keras", "workers-auto", "workers=4, use_multiprocessing=True"),
        ("timm", "log-every-n", "MINE"),
    ):
        run = replace(steady_run(BatchCost(0.02), StepCost(0.02)), loader=loader(through=(library,)))
        assert written in in_framework(run, replace(WORKERS, id=remedy).at(None, "MINE"), k=4).fix.snippet
