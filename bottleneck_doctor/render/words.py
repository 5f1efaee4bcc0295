"""Rounds numbers for people, and escapes foreign text."""

from __future__ import annotations

import math
import re
import unicodedata

from ..model.report import Speedup

UNKNOWN = "?"
# Replacements of bdoc's own signs in encodings that lack them; each is one column wide, so layouts hold.
PLAINER = str.maketrans(
    {"×": "x", "–": "-", "·": "|", "µ": "u", "█": "#", "░": ".", "•": "*", "→": ">", "±": "~", "◀": "<"}
)
MARKUP = re.compile(r"([\\`*_\[\]|~$])")
LINE_MARKUP = re.compile(r"^(\s*)([#>+=-]|\d+(?=[.)](?:\s|$)))")
NUMBER_AND_UNIT = re.compile(r"([<>]?-?\d[\d .]*)(?=( ?[^\d]*)$)")
# GitHub tells people and issues that they were mentioned, even from text.
MENTION = re.compile(r"(@|#(?=\d))")


def percent(share: float | None) -> str:
    """``62 %``; a share is never rounded to "none" or "all" unless it is."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    if 0 < abs(share) < 0.0005:
        return "<0.1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{_trimmed(f'{share * 100:.1f}')} %" if abs(share) < 0.0995 else f"{share * 100:.0f} %"


def change(share: float | None) -> str:
    """``+6 %``, ``-0.4 %``: a share of what was there before."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    if abs(share) < 0.0005:
        return "±0 %"
    if 0.995 <= abs(share) < 1:  # growth may reach 100 %, and nothing shrinks by all of it
        return "+100 %" if share > 0 else f"-{min(99.9, -share * 100):.1f} %"
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


def points(difference: float) -> str:
    """``-60.1 points``: the difference of two shares."""
    return "±0 points" if abs(difference) < 0.0005 else f"{difference * 100:+.1f} points"


def seconds(value: float | None) -> str:
    """``72 µs``, ``24.1 ms``, ``1.83 s``, ``12 min 05 s``, ``3 h 07 min``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 119.5:
        return _clock(value)
    if abs(value) >= 0.9995 or value == 0:
        return f"{_significant(value)} s"
    scale, unit = (1e-3, "ms") if abs(value) >= 0.9995e-3 else (1e-6, "µs")
    return f"{_significant(value / scale)} {unit}"


def size(value: float | None) -> str:
    """``640 B``, ``1.5 KiB``, ``38 MiB``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 999.5 or unit == "TiB":
            return f"{_significant(value)} {unit}"
        value /= 1024
    raise AssertionError("the loop returns")


def count(value: float | None) -> str:
    """``1 204 311`` in groups of three, fractions to three digits."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", " ")
    return _significant(value)


def counted(value: int, one: str, many: str = "") -> str:
    """``1 step``, ``402 steps``."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def ratio(value: float | None) -> str:
    """``×1.8``; near one the second digit shows: ``×1.03``."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"×{_factor(value)}"


def ratio_range(low: float, high: float) -> str:
    """``×1.5–2.1``, or ``×1.8`` when both ends read the same."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return UNKNOWN
    ends = [_factor(low, near=(low, high)), _factor(high, near=(low, high))]
    return f"×{ends[0]}" if ends[0] == ends[1] else f"×{ends[0]}–{ends[1]}"


def promised(speedup: Speedup) -> str:
    """``×1.4``; ``at most ×2.4`` where only the bound is known."""
    return f"at most {ratio(speedup.high)}" if speedup.likely is None else ratio(speedup.likely)


def ratio_within(value: float, low: float, high: float) -> tuple[str, str]:
    """``×1.95`` and ``1.88–2.02``: a measured ratio and its interval, with digits as fine as that is."""
    if not all(map(math.isfinite, (value, low, high))):
        return UNKNOWN, UNKNOWN
    digits = 2 if high - low < 0.3 or low < 1.1 else 1 if high < 20 else 0
    ends = [f"{one:.{digits}f}" for one in (low, high)]
    return f"×{value:.{digits}f}", ends[0] if ends[0] == ends[1] else "–".join(ends)


def within(value: str, interval: str) -> str:
    """``×1.95 (1.88–2.02)``, or the value alone."""
    return f"{value} ({interval})" if interval else value


def number_range(low: str, high: str, between: str = "–") -> str:
    """``61–63 %`` from ``61 %`` and ``63 %``: the unit once when both ends share it."""
    if low == high:
        return low
    first, last = NUMBER_AND_UNIT.match(low), NUMBER_AND_UNIT.match(high)
    if first is None or last is None or first[2] != last[2]:
        return f"{low} {between.strip()} {high}"
    return f"{first[1].rstrip()}{between}{high}"


def quantity(name: str, value: float | None, unit: str = "") -> str:
    """A number in the words of its name: ``data_wait_fraction`` in percent, ``step_time_s`` in seconds."""
    if value is None:
        return "not measured"
    if name.endswith("bytes_per_s") or unit in ("B/s", "bytes/s"):
        return f"{size(value)}/s"
    if name.endswith("_per_s") or unit.endswith("/s"):
        return f"{count(value)}/s"
    if name.endswith(("_fraction", "_share")) or unit in ("fraction", "share"):
        return percent(value)
    if name.endswith("_s") or unit == "s":
        return seconds(value)
    if name.endswith(("_bytes", "bytes")) or unit in ("B", "bytes"):
        return size(value)
    if name.endswith(("_ratio", "speedup")) or unit == "ratio":
        return ratio(value)
    return f"{count(value)} {plain(unit)}".rstrip()


def exact(value: float, other: float | None = None) -> str:
    """Enough digits to repeat it, and to differ from the number it is compared with."""
    for digits in (4, 6, 9, 17):
        shown = f"{value:.{digits}g}"
        if other is None or value == other or shown != f"{other:.{digits}g}":
            return shown
    return repr(value)


def plain(text: str) -> str:
    """Foreign text on one line, with control characters made visible."""
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return spaced if spaced.isascii() and spaced.isprintable() else "".join(map(_visible, spaced))


def short(text: str, longest: int) -> str:
    """The beginning of a text, and a sign if it was cut."""
    return text if len(text) <= longest else text[: longest - 4].rstrip() + " ..."


def block(text: str) -> list[str]:
    """The lines of a foreign text, each with control characters made visible."""
    return [plain(line).rstrip() for line in text.expandtabs(4).strip("\n").split("\n")]


def fit(text: str, encoding: str) -> str:
    """The text in ``encoding``: bdoc's own signs replaced, other characters that it lacks escaped."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.translate(PLAINER).encode(encoding, "backslashreplace").decode(encoding)


def markdown(text: str) -> str:
    """Foreign text in a markdown document, without markup, HTML or @-mentions."""
    safe = MARKUP.sub(r"\\\1", plain(text)).replace("&", "&amp;").replace("<", "&lt;")
    safe = MENTION.sub(r"\1<!-- -->", safe)
    return LINE_MARKUP.sub(lambda found: f"{found[1]}&#{ord(found[2][0])};{found[2][1:]}", safe)


def code(text: str) -> str:
    """Foreign text as a markdown code span, fenced by more backticks than it holds."""
    safe = plain(text) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", safe)), default=0))
    pad = " " if safe[0] == "`" or safe[-1] == "`" else ""
    return f"{fence}{pad}{safe}{pad}{fence}"


def in_chart(text: str) -> str:
    """Foreign text in a chart, whose library reads some HTML in every string."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def drawn(value: float | None) -> float | None:
    """A number as a chart places it: six digits, None where there is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def bar(share: float, columns: int) -> str:
    """``███░░░``: a share as so many columns."""
    full = round(min(max(share, 0.0), 1.0) * columns)
    return "█" * full + "░" * (columns - full)


def capital(text: str) -> str:
    """The first letter large, the rest as it is."""
    return text[:1].upper() + text[1:]


def _visible(sign: str) -> str:
    # Cc and Cf hold escapes, bells and direction overrides; Cs cannot be encoded; Zl and Zp break lines.
    if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return sign.encode("unicode_escape").decode()
    return sign


def _clock(value: float) -> str:
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{count(minutes // 60)} h {minutes % 60:02d} min"


def _significant(value: float) -> str:
    """Three digits, without a tail of zeros: 24.1, 3.05, 640."""
    if abs(value) >= 99.95 or value == 0:
        return f"{value:.0f}"
    if abs(value) < 0.0995:
        return f"{value:.2g}"
    return _trimmed(f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}")


def _trimmed(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _factor(value: float, near: tuple[float, ...] = ()) -> str:
    """One decimal, two when any of the numbers it stands with would read as 1.0."""
    if value >= 9.95:
        return f"{value:.0f}"
    fine = any(0.9 < other < 1.1 for other in (value, *near))
    return f"{value:.2f}" if fine else f"{value:.1f}"
