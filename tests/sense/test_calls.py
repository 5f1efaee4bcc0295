"""System call numbers are those of the running architecture."""

from __future__ import annotations

import pytest

from bottleneck_doctor.sense.wait_channels import _NUMBERS, SOCKET_CALLS, call_numbers


@pytest.mark.parametrize(
    ("machine", "number", "call"),
    [
        ("x86_64", 0, ("descriptor", "read")),
        ("x86_64", 202, ("lock", "futex")),
        ("x86_64", 230, ("sleep", "clock_nanosleep")),
        ("aarch64", 63, ("descriptor", "read")),
        ("aarch64", 98, ("lock", "futex")),
        ("aarch64", 207, ("descriptor", "recvfrom")),
    ],
)
def test_each_architecture_has_its_numbers(machine: str, number: int, call: tuple[str, str]) -> None:
    assert call_numbers(machine)[number] == call


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_number_is_used_twice(machine: str) -> None:
    written = sum(len(text.split(",")) for text in _NUMBERS.values())
    absent = sum(text.count("-") for text in _NUMBERS.values()) if machine == "aarch64" else 0
    assert len(call_numbers(machine)) == written - absent


def test_an_architecture_we_do_not_know_has_none() -> None:
    assert call_numbers("riscv64") == {}


def test_every_socket_call_takes_a_descriptor() -> None:
    assert {name for kind, name in call_numbers("x86_64").values() if kind == "descriptor"} >= SOCKET_CALLS
