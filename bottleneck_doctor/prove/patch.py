"""Writes a remedy into the user's script as a unified diff, where that is safe; touches no file itself.

The script is parsed, not searched, and only the arguments meant are spliced into its text: formatting,
comments and line ends stay. What is set once for a library is set in the script's own statement, or in a new
one. What is not certain is refused with a reason, and the snippet stands for it.
"""

from __future__ import annotations

import ast
import difflib
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..model.code import Location
from ..model.loops import POSITIONS, without_workers
from ..model.profile import Profile
from ..model.proof import Patch, Proof, Proved
from ..model.report import Remedy
from ..model.run import ENVIRONMENT, Treatment
from .script import (
    ARGUMENTS,
    BYTE_ORDER_MARK,
    OWN_ARGUMENTS,
    Edit,
    ParsedScript,
    Unsafe,
    argument_edits,
    calls,
    dotted,
    find_call,
    handed_over,
    is_trainers,
    parse,
    trainers,
)

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


def _before_start(remedies: Sequence[Remedy]) -> str:
    """What precedes a diff, which ``patch`` and ``git apply`` skip: variables to set before the start."""
    found = dict[str, object]()
    for remedy in remedies:
        if all(one.name != "threads" for one in remedy.treatments):
            found |= next((one.options for one in remedy.treatments if one.name == ENVIRONMENT), {})
    return "".join(f"Start the script with {name}={value}\n" for name, value in found.items())


def requests_of(remedy: Remedy, profile: Profile) -> list[EditRequest]:
    """What the remedy wants; raises ``Unsafe`` where a part of it is not to be had by rewriting a script."""
    if not remedy.treatments:
        raise Unsafe("how to write it is not known")
    names = {one.name for one in remedy.treatments}
    found: list[EditRequest] = []
    for treatment in remedy.treatments:
        if treatment.name == ENVIRONMENT and names != {ENVIRONMENT}:
            continue  # ``_before_start`` says it, or the call in the script stands for it
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


LARGEST = 4 << 20  # bytes of one source file; more is no script


def read_source(path: str) -> str:
    """The file's text. Raises ``OSError``, and ``SyntaxError`` or ``ValueError`` where it is not UTF-8."""
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if encoding not in ("utf-8", "utf-8-sig", "ascii"):
        raise ValueError(f"it is written in {encoding}, not in UTF-8")
    return data.decode()


CONTEXT = 3  # lines
NOT_OURS = re.compile(r"(^|/)(site-packages|dist-packages)/")
UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f\"\\]")


def relative(file: str, cwd: str) -> str:
    """The file as seen from where the training was started; raises ``Unsafe`` outside of it."""
    name = os.path.relpath(os.path.join(cwd, file), cwd) if cwd else file
    if NOT_OURS.search(file):
        raise Unsafe(f"the place is in an installed library, {os.path.basename(file)}")
    if os.path.isabs(name) or name.split(os.sep)[0] == os.pardir:
        raise Unsafe(f"{file} is not below the working directory, and a patch names its files from there")
    if UNSPEAKABLE.search(name):
        raise Unsafe("the file has a name that a patch cannot say")
    return name


def unified(before: str, after: str, name: str) -> str:
    """The diff, with the line ends of the file; "" where nothing differs."""
    tail = "\t" if " " in name else ""  # so that a name with blanks ends where it ends
    old, new = (re.findall(r"[^\n]*\n|[^\n]+$", text) for text in (before, after))  # `patch`'s lines
    lines = difflib.unified_diff(old, new, f"a/{name}{tail}", f"b/{name}{tail}", n=CONTEXT)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def edited(source: ParsedScript, requests: Sequence[EditRequest]) -> str:
    """The text with all of them; raises ``Unsafe`` where one cannot be had, or nothing would change."""
    edits = _arguments(source, [request for request in requests if isinstance(request, Arguments)])
    edits += _setting_edits(source, [request for request in requests if isinstance(request, SetStatement)])
    if not edits:
        raise Unsafe("the script says so already")
    data = source.data
    for edit in sorted(edits, key=lambda one: (one.begin, one.end), reverse=True):
        data = data[: edit.begin] + edit.text.encode() + data[edit.end :]
    mark = BYTE_ORDER_MARK if source.whole.startswith(BYTE_ORDER_MARK) else ""
    return mark + data.decode()


def _arguments(source: ParsedScript, requests: list[Arguments]) -> list[Edit]:
    """Each call is changed once, with the arguments of all requests for it."""
    found: dict[int, tuple[ast.Call, Arguments, dict[str, str]]] = {}
    for request in requests:
        call = find_call(source, request.line, request.callee)
        _must_be_the_same(source, call, request)
        wanted = found.setdefault(id(call), (call, request, {}))[2]
        for name, value in request.wanted:
            if wanted.setdefault(name, value) != value:
                raise Unsafe(f"two of the remedies want another {name}")
    edits: list[Edit] = []
    for call, request, wanted in found.values():
        is_own = dotted(call.func, source.names) in request.own
        also = [keyword.arg for keyword in call.keywords if keyword.arg in request.excludes]
        if also:
            raise Unsafe(f"the call says {also[0]} itself")
        present = {keyword.arg for keyword in call.keywords}
        positions = request.positions if is_own else ()
        edits += argument_edits(source, call, without_workers(wanted, present), positions, is_own)
    return edits


def _must_be_the_same(source: ParsedScript, call: ast.Call, request: Arguments) -> None:
    """The call as the run saw it, by what its arguments are called."""
    if request.seen is None:
        return
    positional = ["*" if isinstance(one, ast.Starred) else "" for one in call.args]
    named = [keyword.arg or "**" for keyword in call.keywords]
    if (*positional, *named) != request.seen:
        raise Unsafe("the file has changed since the run: the call has other arguments")


BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.With)


def _setting_edits(source: ParsedScript, requests: list[SetStatement]) -> list[Edit]:
    """Other values for the script's own statements, and new statements for what it does not set."""
    edits: list[Edit] = []
    new: list[SetStatement] = []
    found: dict[str, SetStatement] = {}
    for one in requests:
        if found.setdefault(one.target, one) != one:
            raise Unsafe(f"two of the remedies set {one.target} differently")
    for one in found.values():
        values = list(_values(source, one))
        if len(values) > 1:
            raise Unsafe(f"the script sets {one.target} in several places")
        if not values and one.only_existing:
            raise Unsafe(f"{one.target}() is not called in the file that starts the training")
        if not values:
            new.append(one)
        elif source.text(values[0]) != one.value:
            edits.append(Edit(source.begin(values[0]), source.end(values[0]), one.value))
    return edits + ([_behind_imports(source, new)] if new else [])


def _values(source: ParsedScript, setting: SetStatement) -> Iterator[ast.expr]:
    """What the script sets it to, at each place where it does."""
    if setting.is_call:
        for call in calls(source.tree):
            if dotted(call.func, source.names) == setting.target:
                yield from [*call.args, *(keyword.value for keyword in call.keywords)][:1]
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        attributes = [one for one in targets if isinstance(one, ast.Attribute)]
        if any(dotted(one, source.names) == setting.target for one in attributes):
            yield node.value


def _behind_imports(source: ParsedScript, settings: list[SetStatement]) -> Edit:
    """New statements behind the imports at the top, with the imports that they need."""
    imports = list(_top_imports(source.tree))
    if not imports:
        raise Unsafe("it has no imports at its top, behind which to set anything")
    bound: dict[str, str] = {}  # what the imports bind, to the names that the script has for it
    for node in imports:
        for one in node.names if isinstance(node, ast.Import) else ():
            name = one.asname or one.name.partition(".")[0]
            bound.setdefault(source.names.get(name, ""), name)
    lacking = sorted({one.target.partition(".")[0] for one in settings} - set(bound))
    lines = [*(f"import {name}" for name in lacking), ""]
    for setting in settings:
        module, _, rest = setting.target.partition(".")
        name = f"{bound.get(module, module)}.{rest}"
        lines.append(f"{name}({setting.value})" if setting.is_call else f"{name} = {setting.value}")
    line = imports[-1].end_lineno or 0
    for below in source.tree.body:
        if below.lineno <= line:  # another statement begins on that line, and may end on a later one
            line = max(line, below.end_lineno or 0)
    if line >= len(source.starts):
        raise Unsafe("nothing stands behind its imports")
    at = source.starts[line]
    return Edit(at, at, "".join(text + source.newline for text in lines))


def _top_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, BODIES) or (isinstance(node, ast.If) and "__name__" in ast.dump(node.test)):
            return


Read = Callable[[str], str]


def patch_of(remedies: Sequence[Remedy], profile: Profile, read: Read = read_source) -> Patch:
    """One diff that makes the script do what all treatments of these remedies did, or why there is none.

    ``read(path)`` gives a file's text, line ends as they are, and raises as ``read_source`` does.
    """
    cwd = profile.run.cwd
    try:
        requests = [one for remedy in remedies for one in requests_of(remedy, profile)]
        # A script goes by several names: as typed, and as Python has made it whole.
        requests = [replace(one, file=os.path.normpath(os.path.join(cwd, one.file))) for one in requests]
        files = dict.fromkeys(one.file for one in requests)
        return Patch(_before_start(remedies) + "".join(_diff(file, requests, cwd, read) for file in files))
    except Unsafe as reason:
        return Patch("", str(reason))


def with_patches(proof: Proof, remedies: Sequence[Remedy], profile: Profile) -> Proof:
    """The proof with a patch, or the reason for none, in each row whose verdict is "kept"."""
    known = {remedy.id: remedy for remedy in remedies}

    def patched(row: Proved) -> Proved:
        if row.verdict != "kept":
            return row
        meant = [known[name] for name in row.remedies if name in known]
        if not meant or len(meant) < len(row.remedies):
            return replace(row, patch=Patch("", "the report does not say how to write it"))
        return replace(row, patch=patch_of(meant, profile))

    return replace(proof, rows=[patched(row) for row in proof.rows])


def _diff(file: str, requests: list[EditRequest], cwd: str, read: Read) -> str:
    name = relative(file, cwd)
    try:
        text = read(file)
    except (OSError, SyntaxError, ValueError) as problem:
        raise Unsafe(f"{name} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    source = parse(text)
    after = edited(source, [one for one in requests if one.file == file])
    try:
        parse(after)
    except Unsafe:
        raise Unsafe(f"{name} is written in a way that cannot be changed safely") from None
    return unified(source.whole, after, name)
