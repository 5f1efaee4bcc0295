"""Gathers what the agents noted about how the model computes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from ..agent import wire
from ..model.codec import as_type
from ..model.computing import (
    Anatomy,
    Compilation,
    Computing,
    Denormals,
    GradientRows,
    Optimizer,
    Padding,
    Switches,
)
from ..model.shapes import AttentionShape, ConvolutionShape, ProductShape, Shapes
from .fetches import Crew
from .rows import Diary
from .steps import S

AT_MOST = 64  # of each kind in a profile
COMPILATIONS_AT_MOST = 512  # rows of one process

Fact = TypeVar("Fact", Anatomy, Denormals, GradientRows, Optimizer)
Shape = TypeVar("Shape", ProductShape, ConvolutionShape, AttentionShape)
Made = TypeVar("Made")


def read_computing(trainers: list[Diary], crews: dict[str, list[Crew]], origin: int) -> Computing:
    """Facts of the training processes, and the padding in what their loaders gave them."""
    switches = [_switches(diary) for diary in trainers]
    paddings = [_padding(key, members) for key, members in crews.items()]
    compilations = [_compilation(diary, origin) for diary in trainers]
    return Computing(
        switches=[one for one in switches if one is not None][:AT_MOST],
        optimizers=_facts(trainers, "optimizer", Optimizer),
        anatomies=_facts(trainers, "anatomy", Anatomy),
        denormals=_facts(trainers, "denormals", Denormals),
        gradient_rows=_facts(trainers, "gradient_rows", GradientRows),
        paddings=[one for one in paddings if one is not None][:AT_MOST],
        compilations=[one for one in compilations if one.t][:AT_MOST],
        shapes=_shapes(trainers),
    )


def _shapes(trainers: list[Diary]) -> Shapes:
    return Shapes(
        products=_of_kind(trainers, "product", ProductShape),
        convolutions=_of_kind(trainers, "convolution", ConvolutionShape),
        attentions=_of_kind(trainers, "attention", AttentionShape),
    )


def _of_kind(trainers: list[Diary], name: str, kind: type[Shape]) -> list[Shape]:
    found = [
        (diary.pid, fact) for diary in trainers for fact in diary.facts
        if fact.get("fact") == "shape" and fact.get("kind") == name
    ]  # fmt: skip
    return [one for pid, fact in found[:AT_MOST] if (one := _made(kind, pid, fact)) is not None]


def _facts(trainers: list[Diary], name: str, kind: type[Fact]) -> list[Fact]:
    found = [(diary.pid, fact) for diary in trainers for fact in diary.facts if fact.get("fact") == name]
    return [one for pid, fact in found[:AT_MOST] if (one := _made(kind, pid, fact)) is not None]


def _made(kind: type[Made], pid: int, fact: dict[str, Any]) -> Made | None:
    """The fact as its type; None where it lacks a field, or has one of another type."""
    return as_type(kind, {"pid": pid, **_known(fact, kind)})


def _known(fact: dict[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a fact that its type has; an agent of another version may say more."""
    names = {one.name for one in fields(kind)} - {"pid"}
    return {name: value for name, value in fact.items() if name in names}


def _switches(diary: Diary) -> Switches | None:
    first = diary.first("switches")
    if not first:
        return None
    noticed = sorted({str(fact.get("switch")) for fact in diary.facts if fact.get("fact") == "noticed"})
    casts = diary.first("graph").get("casts_weights")
    said = _known(first, Switches) | {"noticed": noticed}
    said["autocast"] = (
        None if casts is None and not first.get("autocast") else bool(casts or first.get("autocast"))
    )
    return as_type(Switches, {"pid": diary.pid, **said})


def _padding(key: str, crews: list[Crew]) -> Padding | None:
    rows = [
        row for crew in crews for row in crew.diary.rows
        if row.kind == wire.PADDING and crew.thing in (None, row.thing)
    ]  # fmt: skip
    if not rows:
        return None
    return Padding(key, len(rows), sum(row.a for row in rows), sum(row.b for row in rows))


def _compilation(diary: Diary, origin: int) -> Compilation:
    rows = [row for row in diary.of(wire.COMPILED) if min(row.a, row.b, row.c) >= 0]
    rows = rows[:: -(-len(rows) // COMPILATIONS_AT_MOST) or 1]
    return Compilation(
        diary.pid, [(row.t - origin) * S for row in rows], [row.a for row in rows], [row.b for row in rows],
        [row.c * S for row in rows],
    )  # fmt: skip
