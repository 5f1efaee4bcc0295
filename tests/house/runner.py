"""A stand-in for GitHub's runner: carries out the shell steps of a composite action as that does."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.house.source import ROOT

ACTION = ROOT / ".github" / "actions" / "bdoc" / "action.yml"
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
# What GitHub starts for `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


@dataclass
class Ran:
    """What the steps left: the status of the job, the steps' outputs, what they printed, the summary."""

    status: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    said: str = ""
    summary: str = ""
    steps: list[str] = field(default_factory=list)


def action() -> dict[str, Any]:
    """The composite action as GitHub reads it."""
    return dict(yaml.safe_load(ACTION.read_text(encoding="utf-8")))


def carry_out(folder: Path, given: Mapping[str, str]) -> Ran:
    """Every `run` step in its order, in ``folder``, until one fails; `uses` steps are GitHub's own."""
    whole = action()
    assert set(given) <= set(whole["inputs"])
    values = {f"inputs.{name}": one["default"] for name, one in whole["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in given.items()}
    ran = Ran()
    for step in whole["runs"]["steps"]:
        if "run" not in step or not _wanted(step, values):
            continue
        _step(step, folder, values, ran)
        if ran.status:
            break
    ran.outputs = {name: _filled(one["value"], values) for name, one in whole["outputs"].items()}
    return ran


def _wanted(step: dict[str, Any], values: dict[str, str]) -> bool:
    found = re.fullmatch(r"inputs\.([\w-]+) != ''", step.get("if", ""))
    assert found or "if" not in step, f"the stand-in does not know: if: {step['if']}"
    return not found or values[f"inputs.{found[1]}"] != ""


def _step(step: dict[str, Any], folder: Path, values: dict[str, str], ran: Ran) -> None:
    output, summary = folder / ".output", folder / ".summary"
    output.write_text("")
    summary.touch()
    environ = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_ACTION_PATH": str(ACTION.parent),
        **{name: _filled(value, values) for name, value in step.get("env", {}).items()},
    }
    script = folder / ".step.sh"
    script.write_text(step["run"])
    done = subprocess.run(
        [*BASH, str(script)], cwd=folder, env=environ, text=True, capture_output=True, check=False
    )
    ran.status, ran.said = done.returncode, ran.said + done.stdout + done.stderr
    ran.summary = summary.read_text()
    ran.steps.append(step["name"])
    if "id" in step:
        told = outputs(output.read_text())
        values.update({f"steps.{step['id']}.outputs.{name}": value for name, value in told.items()})
    for file in (output, summary) if step["name"] == "Say how it ended" else (output,):
        file.unlink()


def outputs(text: str) -> dict[str, str]:
    """``name=value`` and ``name<<END`` lines, as GitHub reads them."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, heredoc, end = line.partition("<<")
        if heredoc and "=" not in name:
            kept = []
            while (part := next(lines)) != end:
                kept.append(part)
            found[name] = "\n".join(kept)
        else:
            name, _, value = line.partition("=")
            found[name] = value
    return found


def _filled(text: str, values: dict[str, str]) -> str:
    return EXPRESSION.sub(lambda found: values.get(found[1], ""), text)
