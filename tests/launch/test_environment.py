"""What the training finds changed in its environment: nothing but what is written down here."""

from __future__ import annotations

from bottleneck_doctor.launch.command import instrumented

INJECT, AGENT, RUN = "/pkg/inject", "/pkg/agent", "/tmp/run"


def made(environ, settings=None, run=RUN):
    return instrumented(environ, run, INJECT, AGENT, settings or {})


def test_only_the_documented_variables_are_added():
    environ = {"HOME": "/root", "LANG": "C", "ODD\udcff": "\udcfe"}
    assert made(environ) == {**environ, "PYTHONPATH": INJECT, "BDOC_RUN": RUN, "BDOC_AGENT": AGENT}


def test_the_environment_given_is_not_changed():
    environ = {"PYTHONPATH": "/mine"}
    made(environ, {"max_steps": 1})
    assert environ == {"PYTHONPATH": "/mine"}


def test_the_users_python_path_stays_behind_ours_with_its_empty_entries():
    assert made({"PYTHONPATH": "/mine::/yours"})["PYTHONPATH"] == f"{INJECT}:/mine::/yours"


def test_an_empty_python_path_does_not_become_the_working_directory():
    assert made({"PYTHONPATH": ""})["PYTHONPATH"] == INJECT


def test_settings_become_strings_and_absent_ones_stay_away():
    result = made({}, {"tracer": 9, "trial": "/tmp/order.json", "data_fn": None})
    assert result == {**made({}), "BDOC_TRACER": "9", "BDOC_TRIAL": "/tmp/order.json"}


def test_paths_hold_when_the_training_changes_its_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = instrumented({}, "run", "inject", "agent", {})
    assert (result["BDOC_RUN"], result["PYTHONPATH"], result["BDOC_AGENT"]) == (
        str(tmp_path / "run"),
        str(tmp_path / "inject"),
        str(tmp_path / "agent"),
    )


def test_a_run_inside_a_run_takes_over_and_is_injected_once():
    outer = made({"PYTHONPATH": "/mine", "BDOC": "user's"}, {"max_steps": 9})
    inner = made(outer, {"max_seconds": 5}, run="/tmp/inner")
    assert inner == {
        "PYTHONPATH": f"{INJECT}:/mine",
        "BDOC": "user's",
        "BDOC_RUN": "/tmp/inner",
        "BDOC_AGENT": AGENT,
        "BDOC_MAX_SECONDS": "5",
    }


def test_variables_of_the_users_own_that_look_like_ours_stay_when_no_run_is_around_us():
    assert made({"BDOC_CACHE": "1"})["BDOC_CACHE"] == "1"
