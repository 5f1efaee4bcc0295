"""JUnit XML by Jenkins' own schema, whatever strings a machine comes up with.

The schema is junit-10.xsd of Jenkins' xUnit plugin under the MIT licence, which stands in the file.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from bottleneck_doctor.model.gate import Gate
from bottleneck_doctor.render.ci import junit
from tests.render.gates import ALL, FINE, GATES, SEVERAL, UNSURE
from tests.render.hostile import ATTACKS, attacked

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit-10.xsd")


def suite(gate: Gate) -> ElementTree.Element:
    return ElementTree.fromstring(junit(gate, "1.2.3"))[0]


@pytest.mark.parametrize("name", GATES)
def test_every_outcome_is_valid_by_the_schema(name: str) -> None:
    SCHEMA.validate(junit(GATES[name], "1.2.3").decode())


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_strings_stay_text_and_valid(attack: str) -> None:
    page = junit(attacked(ALL, ATTACKS[attack]), "1.2.3")
    SCHEMA.validate(page.decode())
    names = [element.tag for element in ElementTree.fromstring(page).iter()]
    assert names == [element.tag for element in ElementTree.fromstring(junit(ALL, "1.2.3")).iter()]


def test_a_schema_that_accepts_everything_would_prove_nothing() -> None:
    page = junit(ALL, "1.2.3").decode()
    for wrong in (
        page.replace('tests="4"', ""),
        page.replace("<failure", "<failed").replace("</failure", "</failed"),
    ):
        assert wrong != page
        assert not SCHEMA.is_valid(wrong)


def test_each_condition_of_each_profile_is_a_test_and_so_is_the_baseline() -> None:
    cases = suite(SEVERAL).findall("testcase")
    assert len(cases) == 30 * 2 + 1
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("gate", "counts"),
    [(ALL, ("4", "2", "1", "0")), (FINE, ("1", "0", "0", "0")), (UNSURE, ("2", "0", "2", "0"))],
)
def test_what_fails_is_a_failure_and_what_cannot_be_said_an_error(
    gate: Gate, counts: tuple[str, ...]
) -> None:
    found = suite(gate)
    assert tuple(found.get(name) for name in ("tests", "failures", "errors", "skipped")) == counts


def test_a_failure_says_value_interval_and_threshold() -> None:
    failure = suite(ALL).find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == (
        "data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402);"
        " fails when > 0.2 (--max-data-wait)"
    )


def test_the_errors_name_their_reason() -> None:
    assert [error.get("type") for error in suite(UNSURE).iter("error")] == ["cannot-say", "not-comparable"]


def test_the_suite_knows_the_version_the_outcome_the_verdict_and_how_long_the_runs_took() -> None:
    found = suite(ALL)
    properties = {one.get("name"): one.get("value") for one in found.iter("property")}
    assert properties["bdoc"] == "1.2.3"
    assert properties["gate"] == "fails"
    assert properties["data_wait_fraction of a.json"] == "0.6213"
    assert str(properties["verdict of a.json"]).startswith("cpu, input.preprocess: making batches")
    assert (found.get("time"), suite(SEVERAL).get("time")) == ("38.210", "1146.300")
