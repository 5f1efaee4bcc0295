"""A script rewritten by a remedy's patch does what the treatment did, or is left alone with a reason."""

import ast
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.proof import Patch
from bottleneck_doctor.model.report import Remedy
from bottleneck_doctor.model.run import ENVIRONMENT, Treatment
from bottleneck_doctor.prove.patch import patch_of
from tests.model.profiles import PROFILE
from tests.prove.patch.scripts import FILE, HEAD, loader_with, profile_of, remedy

FOUR = Treatment("threads", {"count": 4})


def applied(text: str, diff: str, folder: Path) -> str:
    """The text once git, and `patch` as well, have applied the diff to it."""
    outcomes = set()
    for tool in (["git", "apply", "--whitespace=nowarn"], ["patch", "-p1", "--binary", "--quiet", "-i"]):
        if shutil.which(tool[0]) is None:
            continue
        place = folder / tool[0]
        place.mkdir()
        (place / "train.py").write_bytes(text.encode())
        (place / "made.patch").write_bytes(diff.encode())
        subprocess.run([*tool, "made.patch"], cwd=place, check=True, capture_output=True)
        outcomes.add((place / "train.py").read_bytes().decode())
    assert len(outcomes) == 1
    return outcomes.pop()


def patched(text: str, wanted: Remedy, folder: Path) -> str:
    """The script with the remedy's patch applied."""
    found = patch_of([wanted], profile_of(text), lambda path: text)
    assert found.why == ""
    after = applied(text, found.diff, folder)
    ast.parse(after.removeprefix("\ufeff"))
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = DataLoader(d)", "x = DataLoader(d, num_workers=2, persistent_workers=True)"),
        ("x = DataLoader((d),)  # why", "x = DataLoader((d), num_workers=2, persistent_workers=True)  # why"),
        ("x = DataLoader(d, num_workers = 0)", "x = DataLoader(d, persistent_workers=True, num_workers = 2)"),
        (
            "x = DataLoader(d, 8, True, None, None, args.jobs)",
            "x = DataLoader(d, 8, True, None, None, 2, persistent_workers=True)",
        ),
        (
            "x = DataLoader(\n\td,  # the cats\n\tbatch_size=8  # small, (yet)\n)",
            "x = DataLoader(\n\td,  # the cats\n\tnum_workers=2,\n\tpersistent_workers=True,\n"
            "\tbatch_size=8  # small, (yet)\n)",
        ),
        ("x = DataLoader(\n    d,  # the cats\n)", "a comment stands behind its last argument"),
        ("x = DataLoader(d, **{'num_workers': 1})", "what **{'num_workers': 1} holds is not seen"),
        ("x, y = DataLoader(d), DataLoader(e)", "several calls of DataLoader are at line 2"),
        ("x = DataLoader(i for i in d)", "a generator without brackets of its own"),
        ("x = DataLoader(d, num_workers=2, persistent_workers=True)", "the script says so already"),
    ],
)  # fmt: skip
def test_a_loaders_call_keeps_its_layout_or_is_left_alone(before: str, after: str, tmp_path: Path) -> None:
    text, wanted = f"{HEAD}{before}\n", loader_with(2, num_workers=2, persistent_workers=True)
    if after.startswith("x = "):
        assert patched(text, wanted, tmp_path) == f"{HEAD}{after}\n"
    else:
        found = patch_of([wanted], profile_of(text), lambda path: text)
        assert found.diff == ""
        assert after in found.why


@pytest.mark.parametrize(("newline", "end", "mark"), [("\n", "", ""), ("\r\n", "\n", "\ufeff")])
def test_line_ends_marks_and_foreign_letters_stay(newline: str, end: str, mark: str, tmp_path: Path) -> None:
    lines = [HEAD.rstrip(), "# Über Katzen: 漢字", "for x in DataLoader(", "    dataset='ö'  # ö", "): pass"]
    after = patched(mark + newline.join(lines) + end, loader_with(3, num_workers=2), tmp_path)
    lines.insert(3, "    num_workers=2,")
    assert after == mark + newline.join(lines) + end


def test_no_argument_of_workers_is_left_for_a_loader_that_gets_none(tmp_path: Path) -> None:
    text = f"{HEAD}x = DataLoader(d, num_workers=4, prefetch_factor=8, persistent_workers=True)\n"
    wanted = "x = DataLoader(d, num_workers=0, prefetch_factor=None, persistent_workers=False)\n"
    assert patched(text, loader_with(2, num_workers=0), tmp_path) == HEAD + wanted


@pytest.mark.parametrize(
    ("treatment", "head", "after"),
    [
        (FOUR, "import torch as th\n", "import torch as th\n\nth.set_num_threads(4)\n"),
        (FOUR, "from torch import nn\n", "from torch import nn\nimport torch\n\ntorch.set_num_threads(4)\n"),
        (
            FOUR,
            "import torch\ntorch.set_num_threads(int(n))  # all\n",
            "import torch\ntorch.set_num_threads(4)  # all\n",
        ),
        (
            Treatment("cudnn", {"benchmark": True}),
            "from torch.backends import cudnn\ncudnn.benchmark = False\n",
            "from torch.backends import cudnn\ncudnn.benchmark = True\n",
        ),
        (
            Treatment("cudnn", {"benchmark": True}),
            "from torch.backends import cudnn\ncudnn.benchmark: bool = False\n",
            "from torch.backends import cudnn\ncudnn.benchmark: bool = True\n",
        ),
        (
            Treatment("cudnn", {"benchmark": True}),
            "'''doc'''\nimport torch; x = '''\n'''\n",
            "'''doc'''\nimport torch; x = '''\n'''\n\ntorch.backends.cudnn.benchmark = True\n",
        ),
        (
            Treatment("precision", {"matmul": "high", "convolutions": True}),
            "import torch\n",
            'import torch\n\ntorch.set_float32_matmul_precision("high")\n'
            "torch.backends.cudnn.allow_tf32 = True\n",
        ),
        (
            Treatment("debug", {"drop": "anomaly"}),
            "import torch\ntorch.autograd.set_detect_anomaly(mode=True)\n",
            "import torch\ntorch.autograd.set_detect_anomaly(mode=False)\n",
        ),
    ],
)  # fmt: skip
def test_what_is_set_once_stands_behind_the_imports_or_where_it_stood(
    treatment: Treatment, head: str, after: str, tmp_path: Path
) -> None:
    rest = "\n\ndef main():\n    import this\n"
    assert patched(head + rest, remedy(treatment), tmp_path) == after + rest


def test_an_optimizer_gets_its_argument_where_it_is_built(tmp_path: Path) -> None:
    text = "from torch import optim\nadam = optim.AdamW(model.parameters(), lr=1e-3)\n"
    wanted = remedy(Treatment("optimizer", {"way": "fused"}), line=2)
    assert patched(text, wanted, tmp_path) == text.replace("lr=", "fused=True, lr=")


def test_several_remedies_make_one_diff_and_share_a_call(tmp_path: Path) -> None:
    text = f"{HEAD}import torch\nx = DataLoader(d)\n"
    both = [
        loader_with(3, num_workers=2),
        loader_with(3, pin_memory=True),
        remedy(Treatment("threads", {"count": 1})),
    ]
    found = patch_of(both, profile_of(text), lambda path: text)
    after = (
        f"{HEAD}import torch\n\ntorch.set_num_threads(1)\nx = DataLoader(d, num_workers=2, pin_memory=True)\n"
    )
    assert applied(text, found.diff, tmp_path) == after
    found = patch_of(
        [loader_with(3, num_workers=2), loader_with(3, num_workers=4)], profile_of(text), lambda _: text
    )
    assert found == Patch("", "two of the remedies want another num_workers")


TRAINER = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments(
    output_dir="out",
)
Trainer(args=args).train()
"""


def test_the_trainer_gets_its_loaders_arguments_through_its_own() -> None:
    place = Location(FILE, 5)
    one = Loader("a", "dataloader", 1, "Texts", location=place, through=["transformers"])
    built = [one, replace(one, key="b", through=["accelerate", "transformers"])]
    profile = replace(profile_of(TRAINER), loaders=built, loops=[])
    found = patch_of([loader_with(5, num_workers=2)], profile, lambda path: TRAINER)
    assert "+    dataloader_num_workers=2,\n" in found.diff
    found = patch_of([loader_with(5, in_order=False)], profile, lambda path: TRAINER)
    assert found == Patch("", "TrainingArguments has no argument for in_order")
    evaluating = replace(profile, loops=[replace(PROFILE.loops[0], loader="b", role="evaluation")])
    assert "alike" in patch_of([loader_with(5, num_workers=2)], evaluating, lambda path: TRAINER).why


def test_what_accelerate_builds_anew_is_changed_where_the_script_builds_it() -> None:
    text = f"{HEAD}loader = DataLoader(data)\nloader = accelerator.prepare(loader)\n"
    profile = profile_of(text)
    again = Loader("x", "dataloader", 1, location=Location(FILE, 3), through=["accelerate"])
    profile = replace(profile, loaders=[*profile.loaders, again])
    found = patch_of([loader_with(3, num_workers=2)], profile, lambda path: text)
    assert "+loader = DataLoader(data, num_workers=2)\n" in found.diff
    fastai = replace(again, through=["fastai"])
    found = patch_of([loader_with(3, num_workers=2)], replace(profile, loaders=[fastai]), lambda path: text)
    assert found == Patch("", "fastai builds the loader, not the script")


@pytest.mark.parametrize("name", ["my model/train it.py", "größe/train.py"])
def test_a_file_is_named_as_seen_from_where_the_training_was_started(name: str, tmp_path: Path) -> None:
    text = f"{HEAD}x = DataLoader(d)\n"
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    place = Location(str(path), 2)
    profile = profile_of(text, cwd=str(tmp_path))
    profile = replace(profile, loaders=[replace(profile.loaders[0], location=place)])
    where = {"file": str(path), "line": 2}
    loader = Treatment("loader", {"where": where, "arguments": {"in_order": False}})
    found = patch_of([remedy(loader, Treatment(ENVIRONMENT, {"OMP_WAIT_POLICY": "PASSIVE"}))], profile)
    assert found.diff.startswith("Start the script with OMP_WAIT_POLICY=PASSIVE\n---")
    (tmp_path / "made.patch").write_text(found.diff)
    if shutil.which("patch"):
        subprocess.run(["patch", "-p1", "--dry-run", "-i", "made.patch"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "made.patch"], cwd=tmp_path, check=True)
    assert path.read_text() == f"{HEAD}x = DataLoader(d, in_order=False)\n"


@pytest.mark.parametrize(
    ("text", "wanted", "why"),
    [
        (f"{HEAD}x = DataLoader(d)\n", Treatment(ENVIRONMENT, {"A": "2"}), "before the start: A=2"),
        (f"{HEAD}x = DataLoader(d)\n", Treatment("compiled"), "more than an argument or a setting"),
        (f"{HEAD}x = DataLoader(d)\n", Treatment("threads", {"many": 1}), "more than an argument"),
        ("def f(): pass\n", Treatment("threads", {"count": 1}), "no imports at its top"),
        ("import torch\ntorch.set_num_threads(1)\ntorch.set_num_threads(2)\n", FOUR, "in several places"),
        ("import torch\n", Treatment("debug", {"drop": "anomaly"}), "is not called in the file"),
    ],
)  # fmt: skip
def test_what_is_no_matter_of_the_script_is_said(text: str, wanted: Treatment, why: str) -> None:
    found = patch_of([remedy(wanted)], profile_of(text), lambda path: text)
    assert found.diff == ""
    assert why in found.why


def test_a_file_that_changed_since_the_run_is_left_alone() -> None:
    before = f"{HEAD}x = DataLoader(d)\n"
    for after in (f"{HEAD}\nx = DataLoader(d)\n", f"{HEAD}x = DataLoader(d, pin_memory=True)\n", "def f(:\n"):
        found = patch_of([loader_with(2, num_workers=2)], profile_of(before), lambda path, text=after: text)
        assert found.diff == ""
        assert found.why


def test_files_that_a_patch_cannot_name_or_nobody_can_read_are_left_alone() -> None:
    text = f"{HEAD}x = DataLoader(d)\n"

    def refuse(path: str) -> str:
        raise OSError(2, "No such file or directory")

    found = patch_of([loader_with(2, num_workers=2)], profile_of(text), refuse)
    assert found.why == "train.py cannot be read: No such file or directory"
    for file in ("/elsewhere/train.py", "/home/ann/cats/lib/site-packages/x/y.py"):
        wanted = remedy(Treatment("ddp", {"arguments": {"static_graph": True}}), line=2)
        place = wanted.fix.location
        assert place is not None
        object.__setattr__(place, "file", file)
        assert patch_of([wanted], profile_of(text), lambda path: text).diff == ""
