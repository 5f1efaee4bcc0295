"""Numbers as people read them, and foreign text made harmless."""

import math
from typing import Any

import pytest

from bottleneck_doctor.render import words

# Function: {arguments: text}; the values stand at the edges where the form changes.
TEXTS: dict[str, dict[Any, str]] = {
    "percent": {
        0.0: "0 %", 0.0001: "<0.1 %", 0.004: "0.4 %", 0.0994: "9.9 %", 0.0996: "10 %", 0.6213: "62 %",
        0.9949: "99 %", 0.9999: ">99 %", 1.0: "100 %", 1.5: "150 %", None: "?", math.inf: "?",
    },
    "seconds": {
        0.0: "0 s", 2e-7: "0.2 µs", 0.0009994: "999 µs", 0.0009996: "1 ms", 0.0241: "24.1 ms", 0.9996: "1 s",
        1.834: "1.83 s", 119.4: "119 s", 119.6: "2 min 00 s", 725: "12 min 05 s", 3599.7: "1 h 00 min",
        11220: "3 h 07 min", None: "?", math.inf: "?",
    },
    "size": {0: "0 B", 640: "640 B", 1000: "0.98 KiB", 1536: "1.5 KiB", 3 << 60: "3145728 TiB"},
    "ratio": {1.0: "×1.00", 1.03: "×1.03", 1.84: "×1.8", 0.8: "×0.8", 12.4: "×12", 9.96: "×10"},
    "ratio_range": {(1.5, 2.1): "×1.5–2.1", (1.81, 1.79): "×1.8", (1.02, 1.62): "×1.02–1.62"},
    "number_range": {
        ("61 %", "63 %"): "61–63 %", ("61 %", "61 %"): "61 %", ("999 µs", "1.2 ms"): "999 µs – 1.2 ms",
        ("1 306/s", "1 344/s"): "1 306–1 344/s", ("<0.1 %", "2 %"): "<0.1–2 %",
        ("42 min 05 s", "44 min 05 s"): "42 min 05 s – 44 min 05 s",
    },
    "quantity": {
        ("data_wait_fraction", 0.62): "62 %", ("step_time_s", 0.0241): "24.1 ms",
        ("steps_per_s", 41.49): "41.5/s", ("read_bytes_per_s", 1536.0): "1.5 KiB/s",
        ("batch_bytes", 1536.0): "1.5 KiB", ("anything", 0.5, "fraction"): "50 %",
        ("idle_cores", 2.9, "cores"): "2.9 cores", ("step_time_s", None, "s"): "not measured",
        ("opens", 1204311): "1 204 311", ("x", 1.0, "\x1b[31m"): "1 \\x1b[31m",
    },
    "exact": {
        0.2: "0.2", (0.62134, 0.2): "0.6213", (0.20000001, 0.2): "0.20000001", (0.2, 0.2): "0.2",
    },
    "change": {
        0.06: "+6 %", -0.004: "-0.4 %", 0.0001: "±0 %", None: "?", 0.9999999: "+100 %", 1.004: "+100 %",
        -0.997: "-99.7 %", -0.99999: "-99.9 %",
    },
    "points": {-0.601: "-60.1 points", 0.63: "+63.0 points", 1e-9: "±0 points"},
    "plain": {
        "straße 漢字": "straße 漢字", "\x1b[31m": "\\x1b[31m", "a\nb\tc\r\nd": "a b c d", "a\rb": "a\\rb",
        "a\u202eb": "a\\u202eb", "caf\udce9": "caf\\udce9", "\x9b31m": "\\x9b31m", "[red]": "[red]",
    },
    "markdown": {
        "a_b*c": "a\\_b\\*c", "<b>&amp;": "&lt;b>&amp;amp;", "# a": "&#35; a", "- a": "&#45; a",
        "12. a": "&#49;2. a", "38.2 s": "38.2 s", "[a](b)": "\\[a\\](b)",
        "@ann #12 #a": "@<!-- -->ann #<!-- -->12 #a", "#1": "&#35;<!-- -->1",
    },
    "code": {"a": "`a`", "a`b": "``a`b``", "`a": "`` `a ``", "": "` `", "a\nb": "`a b`"},
    "fit": {
        ("×1.8–2 µs é", "utf-8"): "×1.8–2 µs é", ("×1.8–2 µs é", "ascii"): "x1.8-2 us \\xe9",
        ("×1.8–2 µs é", "latin-1"): "x1.8-2 us é",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_each_value_has_its_text(name: str) -> None:
    given = {value: value if isinstance(value, tuple) else (value,) for value in TEXTS[name]}
    assert {value: getattr(words, name)(*arguments) for value, arguments in given.items()} == TEXTS[name]
