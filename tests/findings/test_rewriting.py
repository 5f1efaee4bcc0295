"""The user's call comes back with other arguments, still Python, and says what became of each."""

from __future__ import annotations

import ast

import pytest

from bottleneck_doctor.findings.remedies import Code, loader_call
from bottleneck_doctor.model.code import Argument, SourceCall
from bottleneck_doctor.model.loops import Loader

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


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("DataLoader(d)", "DataLoader(d, num_workers=2, drop_last=True)  # new: num_workers, drop_last"),
        (
            "data.DataLoader(ds, num_workers=args.jobs)",
            "data.DataLoader(ds, num_workers=2, drop_last=True)"
            "  # num_workers was args.jobs; new: drop_last",
        ),
        (
            "loader_cls(ds, 64, True, None, None, 0)",
            "loader_cls(ds, 64, True, None, None, 2, drop_last=True)"
            "  # num_workers was 0; new: drop_last",
        ),
        ("DataLoader(ds, num_workers=2, drop_last=True)",) * 2,
        (
            "DataLoader(ds, num_workers=0, drop_last=False, **options)",
            "DataLoader(ds, num_workers=2, drop_last=True, **options)"
            "  # num_workers was 0; drop_last was False",
        ),
        (
            "DataLoader(ds, num_workers=0, **options)",
            "# set in what is unpacked below: drop_last=True\n"
            "DataLoader(ds, num_workers=2, **options)  # num_workers was 0",
        ),
        (
            "DataLoader(*args, batch_size=4)",
            "# set in what is unpacked below: num_workers=2, drop_last=True\n"
            "DataLoader(*args, batch_size=4)",
        ),
    ],
)  # fmt: skip
def test_the_users_call_is_written_anew(source: str, written: str) -> None:
    assert loader_call(loader(source), **WANTED) == written
    ast.parse(written)


def test_a_long_call_has_a_line_for_each_argument() -> None:
    source = f"DataLoader(Photos({'root, ' * 12}1), batch_size=64, num_workers=0, collate_fn=f)"
    written = loader_call(loader(source), num_workers=4, persistent_workers=True)
    assert written.splitlines()[2:] == [
        "    batch_size=64,",
        "    num_workers=4,  # was 0",
        "    collate_fn=f,",
        "    persistent_workers=True,  # new",
        ")",
    ]
    ast.parse(written)


def test_what_an_argument_was_in_the_run_says_more_than_its_name() -> None:
    known = {"num_workers": "0", "persistent_workers": "False", "collate_fn": "partial", "batch_size": "8"}
    source = "DataLoader(ds, SIZE, num_workers=jobs, persistent_workers=jobs > 0, collate_fn=f)"
    written = loader_call(
        loader(source, **known), num_workers=2, persistent_workers=True, collate_fn=Code("g"), batch_size=8
    )
    assert [line.partition("  # ")[::2] for line in written.splitlines()[2:-1]] == [
        ("    SIZE,", ""),
        ("    num_workers=2,", "was 0"),
        ("    persistent_workers=True,", "was False"),
        ("    collate_fn=g,", "was f"),
    ]


def test_without_workers_what_needs_them_goes() -> None:
    written = loader_call(loader("DataLoader(ds, num_workers=4, prefetch_factor=8)"), num_workers=0)
    assert written.startswith("DataLoader(ds, num_workers=0, prefetch_factor=None)  # ")
    assert loader_call(loader(prefetch_factor="8"), num_workers=0).endswith(
        "(..., prefetch_factor=None, num_workers=0)"
    )


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("pyg.DataLoader(ds, 64)", "pyg.DataLoader(ds, 64, num_workers=2)  # new: num_workers"),
        ("pyg.DataLoader(ds, 64, 0)", "# set in the call below: num_workers=2\npyg.DataLoader(ds, 64, 0)"),
    ],
)
def test_of_a_librarys_own_loader_only_names_are_known(source: str, written: str) -> None:
    assert loader_call(loader(source, ("torch_geometric",)), num_workers=2) == written


@pytest.mark.parametrize(
    ("through", "written"),
    [
        (
            ("accelerate", "transformers"),
            "TrainingArguments(..., dataloader_num_workers=2, dataloader_drop_last=True)\n"
            "# in what get_train_dataloader() of the Trainer returns: collate_fn=collate",
        ),
        (
            ("lightning",),
            "DataLoader(..., num_workers=2, drop_last=True, collate_fn=collate)"
            "  # the one that train_dataloader() returns",
        ),
        (
            ("timm", "hydra"),
            "# hydra builds this DataLoader; let it have: num_workers=2, drop_last=True, collate_fn=collate",
        ),
    ],
)
def test_a_framework_that_builds_the_loader_has_its_own_way(through: tuple[str, ...], written: str) -> None:
    built = loader(through=through, batch_size="8")
    assert loader_call(built, **WANTED, collate_fn=Code("collate")) == written


@pytest.mark.parametrize(
    ("source", "through", "written"),
    [
        ("DataLoader(train, 8)", (), "DataLoader(Fast(train), 8)  # dataset was train"),
        ("DataLoader(dataset=train)", (), "DataLoader(dataset=Fast(train))  # dataset was train"),
        ("pyg.DataLoader(train)", ("pyg",), "pyg.DataLoader(Fast(train))  # dataset was train"),
        ("DataLoader(*both)", (), "# set in what is unpacked below: dataset=Fast(train)\nDataLoader(*both)"),
        ("", (), "DataLoader(Fast(train), ...)"),
    ],
)
def test_the_data_set_is_replaced_where_it_stands(
    source: str, through: tuple[str, ...], written: str
) -> None:
    assert loader_call(loader(source, through), dataset=Code("Fast(train)")) == written
