"""``python -m tests.bench.reporting``: how long a report on a run of 100,000 steps and 16 workers takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.lanes import picture_of
from bottleneck_doctor.assemble.profile import assemble
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.render import DRAWN, render
from tests.assemble import long_run
from tests.render.browser import open_browser

BROWSERS = 5


def main() -> int:
    """Print each stage's wall and CPU seconds, first call; on a busy machine the CPU is what compares."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        remains = long_run.remains(folder, long_run.write(folder))
        profile = timed("assemble", assemble, remains)
    data = timed("write the profile", encode_profile, profile)
    profile = timed("read the profile", decode_profile, data)
    diagnosis = timed("diagnose", diagnose, profile)
    report = timed("write up", write_up, profile, diagnosis)
    picture = timed("picture", picture_of, diagnosis)
    drawn = {form: timed(form, render, report, form, picture=picture) for form in DRAWN}
    sizes = {"profile": len(data), **{form: len(text.encode()) for form, text in drawn.items()}}
    print("\n".join(f"{name}: {size / 2**20:.2f} MiB" for name, size in sizes.items()))
    try:
        ready = [ready_s(drawn["html"]) for _ in range(BROWSERS)]
    except pytest.skip.Exception as without:
        print(without)
        return 0
    print("all charts drawn:", ", ".join(f"{seconds:.2f} s" for seconds in ready), "after navigation began")
    return 0


def ready_s(page: str) -> float:
    """Until the last chart of the page is drawn, in a browser that was just started."""
    with tempfile.TemporaryDirectory() as name, open_browser(Path(name)) as browser:
        browser.show(page)
        return float(browser.run("return window.bdocReady")) / 1000


def timed(name: str, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """What the call returns, its time said."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = function(*args, **more)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:18} {wall:6.2f} s, of which {cpu:5.2f} s on the CPU", flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
