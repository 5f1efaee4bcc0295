"""Numbers as people read them, and foreign text made harmless."""

from __future__ import annotations

import math

import pytest

from bottleneck_doctor.render import words


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.004, "0.4 %"),
        (0.05, "5 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (0.6213, "62 %"),
        (0.9949, "99 %"),
        (0.9999, ">99 %"),
        (1.0, "100 %"),
        (1.5, "150 %"),
        (None, "?"),
        (math.nan, "?"),
        (math.inf, "?"),
    ],
)
def test_percent(share: float | None, said: str) -> None:
    assert words.percent(share) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 s"),
        (2e-7, "0.2 µs"),
        (7.2e-5, "72 µs"),
        (0.0009994, "999 µs"),
        (0.0009996, "1 ms"),
        (0.0241, "24.1 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.834, "1.83 s"),
        (38.21, "38.2 s"),
        (119.4, "119 s"),
        (119.6, "2 min 00 s"),
        (725, "12 min 05 s"),
        (3599.7, "1 h 00 min"),
        (11220, "3 h 07 min"),
        (None, "?"),
        (math.nan, "?"),
    ],
)
def test_seconds(value: float | None, said: str) -> None:
    assert words.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (640, "640 B"),
        (1000, "0.98 KiB"),
        (1536, "1.5 KiB"),
        (38 << 20, "38 MiB"),
        (3 << 60, "3145728 TiB"),
    ],
)
def test_size(value: float, said: str) -> None:
    assert words.size(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.0, "×1.00"), (1.03, "×1.03"), (1.84, "×1.8"), (0.8, "×0.8"), (12.4, "×12"), (9.96, "×10")],
)
def test_ratio(value: float, said: str) -> None:
    assert words.ratio(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(2.6, "×2.6"), (43.2, "×43"), (814.0, "over ×100"), (math.inf, "?")]
)
def test_no_digits_are_said_of_a_gain_beyond_a_hundred(value: float, said: str) -> None:
    assert words.gain(value) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.5, 2.1, "×1.5–2.1"), (1.81, 1.79, "×1.8"), (1.02, 1.62, "×1.02–1.62"), (0.7, 0.9, "×0.7–0.9")],
)
def test_ranges_of_ratios(low: float, high: float, said: str) -> None:
    assert words.ratio_range(low, high) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        ("61 %", "63 %", "61–63 %"),
        ("61 %", "61 %", "61 %"),
        ("999 µs", "1.2 ms", "999 µs – 1.2 ms"),
        ("40.8/s", "42/s", "40.8–42/s"),
        ("1 306/s", "1 344/s", "1 306–1 344/s"),
        ("<0.1 %", "2 %", "<0.1–2 %"),
        ("42 min 05 s", "44 min 05 s", "42 min 05 s – 44 min 05 s"),
    ],
)
def test_ranges_say_the_unit_once(low: str, high: str, said: str) -> None:
    assert words.number_range(low, high) == said


@pytest.mark.parametrize(
    ("name", "value", "unit", "said"),
    [
        ("data_wait_fraction", 0.62, "", "62 %"),
        ("step_time_s", 0.0241, "", "24.1 ms"),
        ("steps_per_s", 41.49, "", "41.5/s"),
        ("read_bytes_per_s", 1536.0, "", "1.5 KiB/s"),
        ("batch_bytes", 1536.0, "", "1.5 KiB"),
        ("anything", 0.5, "fraction", "50 %"),
        ("idle_cores", 2.9, "cores", "2.9 cores"),
        ("step_time_s", None, "s", "not measured"),
        ("opens", 1204311, "", "1 204 311"),
        ("x", 1.0, "\x1b[31m", "1 \\x1b[31m"),
    ],
)
def test_a_quantity_is_said_in_the_words_of_its_name(
    name: str, value: float | None, unit: str, said: str
) -> None:
    assert words.quantity(name, value, unit) == said


@pytest.mark.parametrize(
    ("value", "beside", "said"),
    [(0.2, None, "0.2"), (0.62134, 0.2, "0.6213"), (0.20000001, 0.2, "0.20000001"), (0.2, 0.2, "0.2")],
)
def test_exact_numbers_never_look_equal_when_they_are_not(
    value: float, beside: float | None, said: str
) -> None:
    assert words.exact(value, beside) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.06, "+6 %"),
        (-0.004, "-0.4 %"),
        (0.0, "±0 %"),
        (0.0001, "±0 %"),
        (None, "?"),
        (0.9999999, "+100 %"),
        (1.004, "+100 %"),
        (-0.997, "-99.7 %"),
        (-0.99999, "-99.9 %"),
    ],
)
def test_change(share: float | None, said: str) -> None:
    assert words.change(share) == said


@pytest.mark.parametrize(
    ("difference", "said"),
    [(-0.601, "-60.1 points"), (0.63, "+63.0 points"), (0.0, "±0 points"), (1e-9, "±0 points")],
)
def test_points(difference: float, said: str) -> None:
    assert words.points(difference) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train.py", "train.py"),
        ("straße 漢字", "straße 漢字"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\r\nd", "a b c d"),
        ("a\rb", "a\\rb"),
        ("a\u202eb", "a\\u202eb"),
        ("caf\udce9", "caf\\udce9"),
        ("\x9b31m", "\\x9b31m"),
        ("[red]", "[red]"),
    ],
)
def test_plain_text_shows_what_a_terminal_would_obey(text: str, said: str) -> None:
    assert words.plain(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a_b*c", "a\\_b\\*c"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
        ("# a", "&#35; a"),
        ("- a", "&#45; a"),
        ("12. a", "&#49;2. a"),
        ("38.2 s", "38.2 s"),
        ("[a](b)", "\\[a\\](b)"),
        ("@ann #12 #a", "@<!-- -->ann #<!-- -->12 #a"),
        ("#1", "&#35;<!-- -->1"),
    ],
)
def test_markdown_text_holds_no_markup(text: str, said: str) -> None:
    assert words.markdown(text) == said


@pytest.mark.parametrize(
    ("text", "said"), [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("", "` `"), ("a\nb", "`a b`")]
)
def test_a_code_span_is_longer_fenced_than_what_it_holds(text: str, said: str) -> None:
    assert words.code(text) == said


@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-8", "×1.8–2 µs é"), ("ascii", "x1.8-2 us \\xe9"), ("latin-1", "x1.8-2 us é")]
)
def test_text_fits_the_encoding(encoding: str, said: str) -> None:
    assert words.fit("×1.8–2 µs é", encoding) == said
