"""Draws the README's pictures from the recorded run of the first quick start.

The command is `python -m tests.house.pictures`. `docs/terminal.svg` is what `bdoc run` prints; a test holds
it to the report of today. `docs/page.png` is the top of what `bdoc view` opens, drawn by a chromium on PATH.
"""

import html
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.timeline import picture_of
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile
from bottleneck_doctor.render import render
from tests.house.source import ROOT
from tests.lab.golden import GOLDEN, read

RUN = GOLDEN / "quickstarts", "plain.profile.json"
TERMINAL, PAGE = ROOT / "docs" / "terminal.svg", ROOT / "docs" / "page.png"
COLUMNS = 88
PAGE_PX = (1100, 860)
DRAWN_WITHIN_MS = 8000
# Nothing is fetched for a picture.
FONTS = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def terminal(color: bool = True) -> str:
    """What the terminal shows of the run."""
    report = write_up(decode_profile(read(*RUN)))
    return render(report, "terminal", width=COLUMNS, color=color)


def as_svg(text: str) -> str:
    """A terminal's text with its colours, as a picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    template = FONTS.sub("", CONSOLE_SVG_FORMAT)
    drawn = console.export_svg(title="bdoc run train.py", code_format=template, unique_id="bdoc")
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def words_of(svg: str) -> list[str]:
    """The words in such a picture, in their order."""
    matrix = svg[svg.index('-matrix">') :]
    found = re.findall(r"<text [^>]*>([^<]*)</text>", matrix)
    return " ".join(map(html.unescape, found)).split()


def draw_page(file: Path) -> None:
    """The top of the page, as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no chromium on PATH: apt-get install chromium"
    diagnosis = diagnose(decode_profile(read(*RUN)))
    page = render(write_up(diagnosis.profile, diagnosis), "html", picture=picture_of(diagnosis))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "page.html")
        place.write_text(page, encoding="utf-8")
        size = f"--window-size={PAGE_PX[0]},{PAGE_PX[1]}"
        wait = f"--virtual-time-budget={DRAWN_WITHIN_MS}"
        subprocess.run(
            [browser, *BROWSER, size, wait, f"--screenshot={file}", place.as_uri()],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    TERMINAL.write_text(as_svg(terminal()), encoding="utf-8")
    draw_page(PAGE)
