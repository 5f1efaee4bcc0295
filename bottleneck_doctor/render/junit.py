"""The gate as JUnit XML: what GitLab, Jenkins and most other CI systems show as tests.

What cannot be said is an ``error``, not ``skipped``: the exit status is not 0 either, and a page of
green tests beside a red job would hide why.
"""

from __future__ import annotations

from xml.etree import ElementTree

from ..model.gate import CANNOT_SAY, EXCEEDED, Checked, Gate, Judgement, Regression
from . import words
from .outcome import VERDICTS, careful, condition_text, judgement_text, regression_text

SUITE = "bdoc check"


def junit(gate: Gate, version: str) -> bytes:
    """One test suite: a test for each profile and condition, and one for the baseline. UTF-8."""
    cases = [_condition(one, judgement) for one in gate.checked for judgement in one.outcome.judgements]
    if gate.regression is not None:
        cases.append(_baseline(gate.regression))
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": 0,
    }
    suite = ElementTree.Element("testsuite", name=SUITE, time=_duration(gate.checked))
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    suite.append(_properties(gate, version))
    suite.extend(cases)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _properties(gate: Gate, version: str) -> ElementTree.Element:
    """Whose numbers these are; the verdict and the data wait of each profile."""
    found = ElementTree.Element("properties")
    pairs = [("bdoc", version), ("gate", VERDICTS[gate.status])]
    for one in gate.checked:
        verdict = one.report.verdict
        pairs.append((f"verdict of {one.profile}", f"{verdict.bound}, {verdict.cause}: {verdict.summary}"))
        wait = one.report.metrics.get("data_wait_fraction")
        if wait is not None and wait.value is not None:
            pairs.append((f"data_wait_fraction of {one.profile}", words.exact(wait.value)))
    for name, value in pairs:
        ElementTree.SubElement(found, "property", name=words.plain(name), value=words.plain(value))
    return found


def _condition(one: Checked, judgement: Judgement) -> ElementTree.Element:
    origin = words.plain(judgement.condition.origin)
    name = f"fails when {condition_text(judgement.condition)} ({origin})"
    case = _case(name, one.profile, _duration([one]))
    return _judged(case, judgement.status, judgement_text(judgement))


def _baseline(regression: Regression) -> ElementTree.Element:
    name = f"fails when slower than the baseline by more than {words.percent(regression.limit)}"
    text = regression_text(regression)
    case = _judged(_case(name, "baseline", "0"), regression.status, text, refused=regression.refused)
    for said in careful(regression):
        ElementTree.SubElement(case, "system-out").text = f"careful: {said}"
    return case


def _case(name: str, classname: str, time: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", name=name, classname=words.plain(classname), time=time)


def _judged(case: ElementTree.Element, status: int, text: str, refused: bool = False) -> ElementTree.Element:
    """The case with its failure or error; what holds says its numbers as output."""
    if status == EXCEEDED:
        ElementTree.SubElement(case, "failure", type="exceeded", message=text).text = text
    elif status == CANNOT_SAY:
        slug = "not-comparable" if refused else "cannot-say"
        ElementTree.SubElement(case, "error", type=slug, message=text).text = text
    else:
        ElementTree.SubElement(case, "system-out").text = text
    return case


def _duration(checked: list[Checked]) -> str:
    """How long the runs took together, in seconds."""
    return f"{sum(one.report.run.duration_s for one in checked):.3f}"
