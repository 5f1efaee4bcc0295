"""What a remedy's treatments mean in the script: arguments of a call, or a setting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...analyse.loader_arguments import POSITIONS
from ...model.code import Location
from ...model.profile import Profile
from ...model.report import Remedy
from ...model.run import ENVIRONMENT, Treatment
from .calls import ARGUMENTS, OWN_ARGUMENTS, Unsafe, handed_over, is_trainers, trainers

OWN_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
PARALLEL = "DistributedDataParallel"
OWN_PARALLEL = frozenset({f"torch.nn.parallel.{PARALLEL}", f"torch.nn.parallel.distributed.{PARALLEL}"})
BEYOND = "it takes more than an argument or a setting"


@dataclass(frozen=True)
class Arguments:
    """A call at ``file:line``, or the only one of the file without a line, gets these arguments, texts by
    name. It takes them surely where its whole name is in ``own``; ``positions`` are its parameters that may
    come without a name, ``seen`` are the names of its arguments as the run saw them, None where it did not,
    and ``excludes`` are arguments that rule it out."""

    file: str
    line: int | None
    callee: str
    wanted: tuple[tuple[str, str], ...]
    own: frozenset[str] = frozenset()
    positions: tuple[str, ...] = ()
    seen: tuple[str, ...] | None = None
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetStatement:
    """``target(value)`` or ``target = value``, once for the whole script; ``only_existing``: where the script
    says it itself."""

    file: str
    target: str
    value: str
    is_call: bool = True
    only_existing: bool = False


EditRequest = Arguments | SetStatement


def requests_of(remedy: Remedy, profile: Profile) -> list[EditRequest]:
    """What the remedy wants; raises ``Unsafe`` where a part of it is not to be had by rewriting a script."""
    if not remedy.treatments:
        raise Unsafe("how to write it is not known")
    names = {one.name for one in remedy.treatments}
    found: list[EditRequest] = []
    for treatment in remedy.treatments:
        if treatment.name == ENVIRONMENT and "threads" in names:
            continue  # variables of other libraries; the call in the script stands for them
        try:
            found += _requests(treatment, remedy, profile)
        except (KeyError, TypeError, ValueError):  # options that a treatment of another version has
            raise Unsafe(BEYOND) from None
    return found


def _requests(treatment: Treatment, remedy: Remedy, profile: Profile) -> Iterator[EditRequest]:
    options: dict[str, Any] = treatment.options
    match treatment.name:
        case "loader":
            yield _loader(options.get("where"), options["arguments"], profile)
        case "optimizer":
            yield _optimizer(str(options["way"]), remedy.fix.location, profile)
        case "ddp" if "hook" not in options and (place := remedy.fix.location) is not None:
            wanted = tuple((name, repr(value)) for name, value in options["arguments"].items())
            yield Arguments(place.file, place.line, PARALLEL, wanted, OWN_PARALLEL)
        case "threads":
            yield SetStatement(_script(profile), "torch.set_num_threads", repr(int(options["count"])))
        case "cudnn":
            value = repr(bool(options["benchmark"]))
            yield SetStatement(_script(profile), "torch.backends.cudnn.benchmark", value, is_call=False)
        case "sharing":
            value = f'"{options["strategy"]}"'
            yield SetStatement(_script(profile), "torch.multiprocessing.set_sharing_strategy", value)
        case "precision":
            value = f'"{options["matmul"]}"'
            yield SetStatement(_script(profile), "torch.set_float32_matmul_precision", value)
            if options.get("convolutions"):
                yield SetStatement(_script(profile), "torch.backends.cudnn.allow_tf32", "True", is_call=False)
        case "debug" if options.get("drop") == "anomaly":
            target = "torch.autograd.set_detect_anomaly"
            yield SetStatement(_script(profile), target, "False", only_existing=True)
        case name if name == ENVIRONMENT:
            variables = " ".join(f"{key}={value}" for key, value in options.items())
            raise Unsafe(f"it is set in the environment, before the start: {variables}")
        case _:
            raise Unsafe(BEYOND)


def _loader(where: dict[str, Any] | None, arguments: dict[str, Any], profile: Profile) -> Arguments:
    if where is None:
        raise Unsafe("which loader is meant is not known")
    file, line = where.get("file"), where.get("line")
    here = [
        one
        for one in profile.loaders
        if (place := one.location) is not None and (place.file, place.line) == (file, line)
    ]
    if not here:
        raise Unsafe("the loader was not seen")
    texts = {name: repr(value) for name, value in arguments.items()}
    if all(map(is_trainers, here)):
        names = trainers(texts, here, profile)
        wanted = tuple((names[name], value) for name, value in texts.items())
        return Arguments(_script(profile), None, ARGUMENTS, wanted, OWN_ARGUMENTS)
    if len({(one.dataset, one.dataset_length, one.batch_size, one.sampler) for one in here}) > 1:
        raise Unsafe(f"line {line} builds several loaders, and not all of them are meant")
    loader = handed_over(here[0], profile) if here[0].call is None and here[0].through else here[0]
    built, call = loader.location, loader.call
    if built is None or call is None:
        raise Unsafe(f"the call at line {line} was not readable")
    seen = tuple(one.name for one in call.arguments)
    wanted = tuple(texts.items())
    return Arguments(built.file, built.line, call.function, wanted, OWN_LOADERS, POSITIONS, seen)


def _optimizer(way: str, place: Location | None, profile: Profile) -> Arguments:
    here = [one.name for one in profile.computing.optimizers
            if place is not None and (one.file, one.line) == (place.file, place.line)]  # fmt: skip
    if place is None or not here:
        raise Unsafe("where the optimizer is built was not seen")
    excludes = tuple({"fused", "foreach"} - {way})  # torch refuses both at once
    own = frozenset({f"torch.optim.{here[0]}", f"torch.optim.{here[0].lower()}.{here[0]}"})
    return Arguments(place.file, place.line, here[0], ((way, "True"),), own, excludes=excludes)


def _script(profile: Profile) -> str:
    """The file that starts the training; of a launcher's command the only one that looks like it."""
    run = profile.run
    named = [run.script] if run.script else [word for word in run.command if word.endswith(".py")]
    if len(named) != 1 or not named[0] or named[0] == "-":
        raise Unsafe("which file starts the training is not known")
    if run.command[1:3] == ["-m", named[0]]:
        return os.path.join(run.cwd, *named[0].split(".")) + ".py"
    return os.path.join(run.cwd, named[0])
