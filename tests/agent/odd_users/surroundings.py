"""Users whose process is odd: warnings, tracers, signals, forks."""

import collections
import gc
import logging
import os
import pickle
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader

from tests.agent.odd_users.rows import Made, Rows, train, user


@user
def warnings_as_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(DataLoader(Rows(), batch_size=4))
        train(DataLoader(Rows(), batch_size=4, num_workers=1))


class Aged(Rows):
    """Warns whoever asks for a sample, once per line that asks."""

    def __getitem__(self, index: Any) -> Any:
        for level in range(1, 5):
            warnings.warn(f"row {level}", stacklevel=level)
        return super().__getitem__(index)


@user
def warnings_that_name_their_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        collate = lambda rows: warnings.warn("batch", stacklevel=2) or torch.stack(rows)  # noqa: E731
        train(DataLoader(Aged(), batch_size=4, collate_fn=collate))
    print([(str(one.message), one.filename, one.lineno) for one in caught])


@user
def logs_that_name_their_caller() -> None:
    def emit(record: logging.LogRecord) -> None:
        frame: Any = sys._getframe(1)  # as loguru's documentation finds the line that logs
        while frame.f_code.co_filename == logging.__file__ or "importlib._bootstrap" in str(frame.f_code):
            frame = frame.f_back
        print(record.getMessage(), frame.f_code.co_name)

    handler = logging.Handler()
    handler.emit = emit  # type: ignore[method-assign]
    logging.getLogger("intercepted").addHandler(handler)
    logging.getLogger("intercepted").warning("here")


@user
def functions_of_c_as_attributes() -> None:
    files: Any = type("Files", (), {"flush": os.fsync})()
    with tempfile.TemporaryFile() as file:
        print(files.flush(file.fileno()), pickle.loads(pickle.dumps(os.fsync)) is os.fsync)


@user
def profilers_and_tracers_of_their_own() -> None:
    here, calls = __file__, collections.Counter()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == here:
            calls[event, frame.f_code.co_name] += 1
        return None

    sys.setprofile(trace)
    try:
        train(DataLoader(Rows(), batch_size=4))
    finally:
        sys.setprofile(None)
    print(sorted((event, name, count) for (event, name), count in calls.items() if event == "call"))
    with torch.autograd.profiler.profile() as seen:
        train(DataLoader(Rows(), batch_size=4))
    print(sorted((one.key, one.count) for one in seen.key_averages()))


class Interrupted(Exception):
    """Raised by a signal handler."""


def interrupted(work: Callable[[], Any], every_s: float, times: int) -> None:
    """Print how many of the exceptions that a handler raised while the work was done have not reached us."""
    armed, sent, caught = False, 0, 0

    def handler(number: int, frame: Any) -> None:
        nonlocal sent
        if armed:
            sent += 1
            raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, every_s, every_s)
    try:
        while sent < times:
            try:
                armed = True
                work()
                armed = False
            except Interrupted:
                armed = False
                caught += 1
            torch.set_grad_enabled(True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    try:
        work()  # raises what is still postponed, which is not the next user's
    except Interrupted:
        caught += 1
    lost = (sent - caught) / sent  # torch itself drops some in its C++ code
    print("lost", "less than 2.5 %" if lost < 0.025 else f"{lost:.1%}")


@user
def signal_handlers_that_raise() -> None:
    loader = DataLoader([torch.randn(8, 4) for _ in range(300)], batch_size=None)
    weight = torch.randn(4, 1, requires_grad=True)
    iterators = [iter(loader)]

    def step() -> None:
        batch = next(iterators[0], None)
        if batch is None:
            iterators[0] = iter(loader)
            batch = next(iterators[0])
        (batch @ weight).square().mean().backward()

    interrupted(step, 0.0017, 2000)


@user
def signal_handlers_that_raise_during_collections() -> None:
    gc.collect()
    gc.freeze()
    ballast: list[list[int]] = [[] for _ in range(200_000)]
    iterator = iter(DataLoader([torch.randn(4)] * 100_000, batch_size=None))

    def step() -> None:
        gc.collect()
        next(iterator)

    interrupted(step, 0.011, 200)
    gc.unfreeze()
    print(len(ballast))


@user
def forks_in_the_loop() -> None:
    for number, _ in enumerate(DataLoader(Rows(), batch_size=4)):
        if number == 2:
            sys.stdout.flush()
            child = os.fork()
            if not child:
                weight = torch.ones(4, requires_grad=True)
                for row in DataLoader(Rows(8), batch_size=2):
                    (row * weight).sum().backward()
                print("child", weight.grad.tolist())
                sys.stdout.flush()
                os._exit(3)
            print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print("over")


@user
def random_numbers_stay_theirs() -> None:
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    for _ in DataLoader(Rows(), batch_size=4, shuffle=True, num_workers=1):
        torch.rand(1)
    print(torch.rand(2).tolist(), random.random(), numpy.random.rand())


@user
def deep_recursion_has_its_room() -> None:
    def deep(index: int, depth: int = 0) -> Any:
        return torch.ones(4) if depth == 850 else deep(index, depth + 1)

    train(DataLoader(Made(deep), batch_size=4))


@user
def descriptors_closed_as_daemons_do() -> None:  # the last: what comes after it may miss some
    kept = [os.dup(one) for one in (0, 1, 2)]
    for number, _ in enumerate(DataLoader(Rows(), batch_size=2)):
        if number == 4:
            os.closerange(max(kept) + 1, 64)
    train(DataLoader(Rows(), batch_size=4))
