"""Combined speedups stair by stair, and what is no stair."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.report import Remedy, Speedup
from bottleneck_doctor.render.compose import compose, is_alternative, staircase
from bottleneck_doctor.render.document import WHOLE, Lengths
from tests.render.reports import REMEDIES, TYPICAL


def stairs(*combined: float | None, basis: str = "replay") -> list[Remedy]:
    """Remedies with these combined speedups."""
    return [
        replace(
            REMEDIES[0],
            id=f"r-{at}",
            predicted_speedup=Speedup(1.1, None if basis == "bound" else 1.2, 1.3, basis),
            combined_speedup=one,
        )
        for at, one in enumerate(combined)
    ]


@pytest.mark.parametrize(
    ("combined", "said"),
    [
        ((), ""),
        ((2.5,), ""),
        ((2.5, 2.62), "together: 1 ×2.5 → with 2 ×2.6"),
        ((2.5, None, 2.7), "together: 1 ×2.5 → with 3 ×2.7"),
        ((None, 1.5, 2.0), "together: 2 ×1.5 → with 3 ×2.0"),
        ((2.51, 2.52, 2.7), "together: 1 ×2.5 → with 3 ×2.7"),
        ((1.04, 1.08), "together: 1 ×1.04 → with 2 ×1.08"),
        ((None, None), ""),
    ],
)
def test_each_remedy_that_adds_is_a_stair(combined: tuple[float | None, ...], said: str) -> None:
    assert staircase(stairs(*combined)) == said


@pytest.mark.parametrize(
    ("combined", "basis", "alternatives"),
    [
        ((2.5, None, 2.7), "replay", [False, True, False]),
        ((2.5, None, 2.7), "bound", [False, False, False]),  # not replayed: it may well add
        ((None, None), "replay", [False, False]),
    ],
)
def test_what_adds_nothing_is_an_alternative(
    combined: tuple[float | None, ...], basis: str, alternatives: list[bool]
) -> None:
    remedies = stairs(*combined, basis=basis)
    assert [is_alternative(one, remedies) for one in remedies] == alternatives


def test_what_shortens_the_run_beside_its_steps_is_no_alternative() -> None:
    remedies = [
        one if place == 0 else replace(one, scope="run") for place, one in enumerate(stairs(2.5, None))
    ]
    assert [is_alternative(one, remedies) for one in remedies] == [False, False]


@pytest.mark.parametrize(("shown", "said"), [(1, ""), (2, "1 ×2.5 → with 2 ×2.6"), (3, "with 3 ×2.7")])
def test_only_the_remedies_shown_have_stairs(shown: int, said: str) -> None:
    assert compose(TYPICAL, Lengths(remedies=shown)).together.endswith(said)


def test_the_reader_is_told_of_alternatives() -> None:
    remedies = [REMEDIES[0], replace(REMEDIES[2], combined_speedup=None)]
    assert [block.alternative for block in compose(replace(TYPICAL, remedies=remedies), WHOLE).remedies] == [
        False,
        True,
    ]
