"""``bdoc compare``, ``bdoc explain``, ``bdoc env``: each prints what its room says."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from bottleneck_doctor.commands import env
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.model.instruments import Capability
from tests.commands.conftest import Store


def test_two_profiles_are_compared(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", store("typical", "a.json"), store("healthy", "b.json")]) == 0
    assert capsys.readouterr().out.startswith("CPU-bound, input.preprocess → balanced\n")


def test_a_comparison_needs_both(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", store("typical"), "absent.json"]) == 2
    assert "no profile at 'absent.json'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("loader-in-main", "loader-in-main\n\nEvery batch is made by the training process itself."),
        ("workers-auto", "workers-auto\n\noffered by  ipc-overhead, loader-in-main, "),
        ("balanced", "balanced\n\nNo resource, made infinitely fast"),
        ("hook~", "hook~\n\nan argument or a call"),
        ("python stacks (py-spy)", "python-stacks-py-spy\n\npy-spy took no"),
        ("data_wait_fraction", "data_wait_fraction\n\nShare of the steady training time"),
        ("input.storage", "input.storage\n\nthe data comes slowly from storage"),
        ("[bad-profile]", "bad-profile\n\nThe file is not a profile"),
    ],
)
def test_an_id_leads_to_its_page(id: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", id]) == 0
    assert capsys.readouterr().out.startswith(said)


def test_without_an_id_everything_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    shown = capsys.readouterr().out
    for name in (
        "findings",
        "loader-in-main",
        "remedies",
        "workers-auto",
        "bounds",
        "gaps",
        "causes",
        "metrics",
        "startup_s",
        "messages",
        "cannot-say",
    ):
        assert name in shown


def test_an_unknown_id_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "loader-in-mian"]) == 2
    assert "no page 'loader-in-mian': did you mean loader-in-main? [usage]" in capsys.readouterr().err
    assert main(["explain", "worker-auto"]) == 2
    assert "did you mean workers-auto or " in capsys.readouterr().err


def test_the_environment_is_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ModuleType("bottleneck_doctor.sense.capabilities")
    fake.list_capabilities = lambda: [Capability("gpu counters", False, "no driver", "install one")]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bottleneck_doctor.sense.capabilities", fake)
    monkeypatch.setattr(
        "bottleneck_doctor.commands.env.describe", lambda python: Capability(python, True, "")
    )
    assert main(["env", "--python", sys.executable]) == 0
    assert capsys.readouterr().out == (
        f"yes  {sys.executable}\nno   gpu counters: no driver\n     to allow it: install one\n\n"
        "1 of 2 can be measured here\n"
    )


def test_a_python_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--python", "/absent/python"]) == 2
    assert "'/absent/python' is neither an executable file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("python", "available", "said"),
    [
        (sys.executable, True, "python 3."),
        ("/absent/python", False, "could not be asked"),
        ("/bin/false", False, "left with status 1"),
        ("/bin/true", False, "left with status 0"),
    ],
)
def test_the_target_interpreter_is_asked(python: str, available: bool, said: str) -> None:
    capability = env.describe(python)
    assert said in capability.detail
    if python != sys.executable:  # ours may or may not have torch
        assert capability.available is available
        assert capability.do
