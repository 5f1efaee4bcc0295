"""What is shipped for CI has been run: the action's own shell; recipes are valid by their schemas."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bottleneck_doctor.model.codec import encode_profile
from tests.house.runner import ACTION, action, carry_out
from tests.house.source import ROOT
from tests.model.profiles import PROFILE

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SHELL = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOB = str(ROOT / "tests" / "patients" / "loader_in_main.py")


def test_what_others_read_is_valid_by_their_schemas(tmp_path: Path) -> None:
    read_by: dict[str, list[Path]] = {
        "github-actions": [ACTION],
        "github-workflows": [*WORKFLOWS],
        "gitlab-ci": [],
    }
    for number, (name, text) in enumerate(RECIPES):
        file = tmp_path / f"{number}.yml"
        file.write_text(text)
        read_by["gitlab-ci" if "gitlab" in name else "github-workflows"].append(file)
    for schema, files in read_by.items():
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
        done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_caller_says_never_stands_in_a_script() -> None:
    scripts = [step["run"] for step in action()["runs"]["steps"] if "run" in step]
    for _, text in RECIPES:
        steps = [step for job in yaml.safe_load(text).get("jobs", {}).values() for step in job["steps"]]
        scripts += [step["run"] for step in steps if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_actions_of_others_are_pinned_to_a_major_version() -> None:
    texts = [ACTION.read_text(), *(path.read_text() for path in WORKFLOWS), *(text for _, text in RECIPES)]
    used = [
        name for text in texts for name in re.findall(r"uses: (\S+)", text) if name.startswith("actions/")
    ]
    assert used
    assert not [name for name in used if not re.search(r"@v\d+$", name)]


def test_the_plain_shell_recipe_ends_as_the_gate_does(tmp_path: Path) -> None:
    for status, ends in ((0, 0), (1, 1), (2, 2), (3, 0)):
        stand_in = f'bdoc() {{ [ "$1" = run ] || return {status}; }}\n'
        done = subprocess.run(
            ["sh", "-c", stand_in + SHELL[0]], cwd=tmp_path, check=False, capture_output=True
        )
        assert done.returncode == ends


def stored(folder: Path) -> str:
    """A profile that says too little to be judged."""
    (folder / "old profile.json").write_bytes(encode_profile(PROFILE))
    return "old profile.json"


def test_the_action_judges_profiles_that_are_there(tmp_path: Path) -> None:
    ran = carry_out(tmp_path, {"install": "", "profiles": stored(tmp_path), "max-data-wait": "0.2"})
    assert (ran.status, ran.outputs["status"]) == (3, "3")
    assert ran.summary.startswith("## bdoc check: cannot say")
    assert "::warning title=bdoc%3A cannot say::" in ran.said
    assert (tmp_path / "bdoc-results" / "junit.xml").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"script": "train.py", "profiles": "a.json"}, "give either script or profiles"),
        ({"script": "train.py", "repeats": "1; touch owned"}, "repeats is no whole number"),
        ({"profiles": "absent.json"}, "nothing to check"),
        ({"python": "echo", "install": "."}, f"-m pip install --quiet {ACTION.parent}/../../..\n"),
        ({"profiles": "--help", "max-data-wait": "0.2"}, "no profile at '--help'"),
        ({"profiles": "$(touch owned)`touch owned`", "max-data-wait": "0.2"}, "no profile at"),
        ({"script": "'$(touch owned); touch owned'"}, "script '$(touch owned); touch owned' does not exist"),
    ],
)
def test_the_action_refuses_nonsense_and_obeys_none_of_it(
    given: dict[str, str], said: str, tmp_path: Path
) -> None:
    ran = carry_out(tmp_path, {"install": "", **given})
    assert ran.status == 2
    assert said in ran.said
    assert not (tmp_path / "owned").exists()


@pytest.mark.slow
def test_the_action_runs_a_training_and_marks_its_lines(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.bdoc]\nmax-data-wait = 0.1\n")
    given = {
        "install": "", "script": f"'{JOB}' --steps 80",
        "fail-if": "data_wait_fraction > 0.2\n\nstep_time_s > 100",
    }  # fmt: skip
    ran = carry_out(tmp_path, given)
    assert ran.steps[:2] == ["Run the training", "Hold it against the thresholds"]
    assert (ran.status, ran.outputs["status"]) == (1, "1"), ran.said
    assert 0.2 < float(ran.outputs["data-wait-fraction"]) < 1
    assert "::error title=" in ran.said
    profiles = sorted((tmp_path / "bdoc-results" / "profiles").iterdir())
    assert [path.name for path in profiles] == ["1.json"]
    assert json.loads(profiles[0].read_text())["run"]["command"][-1] == "80"
    assert (tmp_path / ran.outputs["report"]).stat().st_size > 0


@pytest.mark.slow
def test_repeats_are_profiles_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv)")
    given = {"install": "", "script": "train.py 'two words' $HOME", "repeats": "2", "max-data-wait": "0.2"}
    given["max-seconds"] = "30"
    ran = carry_out(tmp_path, given)
    assert (ran.status, ran.outputs["profiles"]) == (3, "bdoc-results/profiles")
    assert ran.said.count("['train.py', 'two words', '$HOME']") == 2
    names = [sorted(os.listdir(tmp_path / "bdoc-results" / kind)) for kind in ("profiles", "reports")]
    assert names == [["1.json", "2.json"], ["1-1.html", "2-2.html"]]
    assert ran.outputs["report"] == "bdoc-results/reports/2-2.html"


@pytest.mark.slow
def test_a_training_that_fails_ends_the_action_with_its_own_status(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; sys.exit(1)")
    ran = carry_out(tmp_path, {"install": "", "script": "train.py", "max-data-wait": "0.2"})
    assert (ran.status, ran.steps) == (1, ["Run the training"])
