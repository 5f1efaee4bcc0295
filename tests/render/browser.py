"""A real browser without a window, and what it noticed: its console, and every request that it made."""

import base64
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DRAWN_WITHIN_S = 60.0  # on a machine that is busy with other things
WITHOUT = (
    "no chromium and chromedriver on PATH: pages were NOT tried in a browser "
    "(apt-get install chromium chromium-driver)"
)
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
           "--disable-background-networking", "--disable-component-update")  # fmt: skip


class Browser:
    """One browser, which shows one page after the other."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def show(self, page: str, width: int = 1100, dark: bool = False, ready: str = "window.bdocReady") -> None:
        """Load the page and wait until all of its charts are drawn; a narrow screen is a touched one."""
        file = self.folder / "page.html"
        file.write_text(page, encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # nothing slides away from a click
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self.command("Emulation.setTouchEmulationEnabled", enabled=width < 500)
        self.driver.get_log("browser"), self.driver.get_log("performance")  # what earlier pages left
        self.driver.get(file.as_uri())
        self.wait_for(ready)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, condition: str) -> None:
        """Until the expression is true in the page."""
        deadline = time.monotonic() + DRAWN_WITHIN_S
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def command(self, name: str, **parameters: Any) -> Any:
        """One command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def press(self, selector: str, *keys: str) -> None:
        """Press keys, one after the other, in the element."""
        for key in keys:
            self.driver.find_element("css selector", selector).send_keys(key)

    def swipe(self, selector: str) -> None:
        """Move a finger upwards from the middle of the element."""
        into_view = (
            "arguments[0].scrollIntoView({block: 'center'}); return arguments[0].getBoundingClientRect()"
        )
        box = self.run(into_view, self.driver.find_element("css selector", selector))
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind, up in [("touchStart", 0), *(("touchMove", 20 * step) for step in range(1, 11))]:
            self.command("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y - up}])
        self.command("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def errors(self) -> list[str]:
        """What the console complained about, refusals of the page's own policy among it."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] != "INFO"]

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was loaded, data within the page apart."""
        messages = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))
        sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if not one["request"]["url"].startswith("data:")]

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.command("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser until the end of the block; skips, and says so, where none is installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip(WITHOUT)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Named, so that selenium looks for none, and downloads none.
    opened = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    try:
        yield Browser(opened, folder)
    finally:
        opened.quit()
