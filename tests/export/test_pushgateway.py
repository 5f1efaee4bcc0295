"""The Pushgateway: what it is sent, and what a real one says afterwards, where it is installed."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.commands.app import main
from tests.export import sent

pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
from tests.export.test_prometheus import samples

GATEWAY = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")


def push(folder: Path, address: str) -> None:
    """The recorded run's report goes there."""
    target = f"pushgateway:{address}"
    assert main(["report", sent.profile(folder), "-o", str(folder / "r.md"), "--export", target]) == 0


def test_the_group_of_host_and_script_is_replaced_by_the_numbers_of_the_report(tmp_path: Path) -> None:
    with sent.receiver() as (host, asked):
        push(tmp_path, f"http://ann:p%40w@{host}/under")
    (request,) = asked
    run = sent.report()["run"]
    script = base64.urlsafe_b64encode(run["script"].encode()).decode()
    named = f"run@base64/{script}" if "/" in run["script"] else f"run/{run['script']}"
    group = f"/under/metrics/job/bdoc/instance/{run['host']}/{named}"
    assert (request.method, request.path) == ("PUT", group)
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"ann:p@w").decode()
    held(samples(request.body.decode()))


def held(found: list[tuple[str, dict[str, str], float]]) -> None:
    """The numbers and the verdict are those of the report."""
    info = [labels for name, labels, _ in found if name == "bdoc_verdict_info"]
    assert [{name: one[name] for name in sent.verdict()} for one in info] == [sent.verdict()]
    numbers = [one for one in found if one[0].startswith("bdoc_") and one[0] != "bdoc_verdict_info"]
    assert sent.of_labels(numbers) == sent.numbers()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    """The address of a real one."""
    if GATEWAY is None:
        pytest.skip("needs Prometheus' pushgateway")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = subprocess.Popen([GATEWAY, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://{address}"
    finally:
        running.kill()
        running.wait()


def test_a_real_gateway_holds_the_report_and_of_two_pushes_the_last(gateway: str, tmp_path: Path) -> None:
    push(tmp_path, gateway)
    push(tmp_path, gateway)
    with urllib.request.urlopen(f"{gateway}/metrics", timeout=5) as answer:
        found = samples(answer.read().decode())
    ours = [one for one in found if one[0].startswith("bdoc_")]
    run = sent.report()["run"]
    groups = {(labels["job"], labels["instance"], labels["run"]) for _, labels, _ in ours}
    assert groups == {("bdoc", run["host"], run["script"])}
    held(ours)


def test_without_a_gateway_it_is_one_line_without_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(tmp_path, "http://ann:s3cret@127.0.0.1:9")
    told = capsys.readouterr().err
    assert told.startswith("bdoc: not exported to pushgateway:http://127.0.0.1:9: URLError: ")
    assert told.count("\n") == 1
    assert "s3cret" not in told
