"""Says what a profiled step was made of: operators, the short pauses between them, and the long ones.

A short pause is the price of calling the next operator: Python runs the line, the module, the optimizer's
loop. A long one is Python at other work. Spans that only group others (``record_function``) are looked
through; inside of ``Optimizer.step`` every pause is one of calling, however long its lists are.
"""

from __future__ import annotations

from .types import Any

LONG_US = 100.0  # without any operator: no module and no dispatch takes that long to call the next one
CALL_US = 5.0  # of an operator's own time at most is the price of calling it
LARGE_US = 200.0  # of its own: an operator that several threads can share
LONGEST = 8  # operators and pauses are kept one by one: a thread that lost its core did so in one of these
RECORDS_AT_MOST = 100_000  # are looked at, at a microsecond each, while the user's thread waits


class OperatorTimes:
    """Microseconds of one thread, summed up; ``beyond`` is what operators took beyond the price of a call."""

    def __init__(self) -> None:
        self.operators = 0
        self.longest_operators: list[float] = []
        self.longest_pauses: list[float] = []
        self.longest_calls: list[float] = []  # pauses inside of an optimizer
        self.own = self.beyond = self.large = self.short = self.long = 0.0
        self.seen = 1.0  # share of the records' time that was looked at

    def operator(self, own: float) -> None:
        """One call, with the time that no operator inside of it took."""
        self.operators += 1
        self.own += own
        self.beyond += max(0.0, own - CALL_US)
        if own >= LARGE_US:
            self.large += own
            _keep(self.longest_operators, own)

    def pause(self, taken: float, in_optimizer: bool) -> None:
        """No operator ran for so long."""
        if taken >= LONG_US and not in_optimizer:
            self.long += taken
            _keep(self.longest_pauses, taken)
        else:
            self.short += taken
            if taken >= LONG_US:
                _keep(self.longest_calls, taken)


def _keep(longest: list[float], taken: float) -> None:
    longest.append(taken)
    longest.sort(reverse=True)
    del longest[LONGEST:]


def dissect(records: Any, table: dict[str, list[Any]]) -> OperatorTimes:
    """One thread's records, in order, from the mark that the profiler sets when it begins. ``table`` is added
    to: name -> [calls, microseconds of its own]."""
    anatomy, optimizing, operating = OperatorTimes(), 0, 0
    last: Any = records[0] if records else None
    kinds: dict[str, tuple[bool, bool]] = {}  # is it an operator, an optimizer
    spans: list[list[Any]] = []  # open ones: [record, name, microseconds inside, of these in operators]
    for record in records[:RECORDS_AT_MOST]:
        kind = record.kind()
        if kind == "push":
            name = record.name()
            if name not in kinds:
                kinds[name] = is_operator(name), name.startswith("Optimizer.")
            operator, optimizer = kinds[name]
            optimizing += optimizer
            if operator and not operating:
                anatomy.pause(last.cpu_elapsed_us(record), optimizing > 0)
            operating += operator
            spans.append([record, name, 0.0, 0.0])
        elif kind == "pop" and spans:
            begun, name, inside, in_operators = spans.pop()
            operator, optimizer = kinds[name]
            taken = begun.cpu_elapsed_us(record)
            row = table.setdefault(name, [0, 0.0])
            row[0] += 1
            row[1] += max(0.0, taken - inside)
            if operator:
                anatomy.operator(max(0.0, taken - in_operators))
            if spans:
                spans[-1][2] += taken
                spans[-1][3] += taken if operator else in_operators
            optimizing -= optimizer
            operating -= operator
            last = record if operator and not operating else last
        elif kind == "mark" and last is not record and not operating:
            anatomy.pause(last.cpu_elapsed_us(record), False)
            last = record
    if len(records) > RECORDS_AT_MOST:
        first, cut, end = records[0], records[RECORDS_AT_MOST - 1], records[-1]
        anatomy.seen = first.cpu_elapsed_us(cut) / max(first.cpu_elapsed_us(end), 1e-9)
    return anatomy


def is_operator(name: str) -> bool:
    """Whether a span computes by itself: ``aten::mm``, ``MulBackward0``; else it only groups others."""
    return "::" in name or name.rstrip("0123456789").endswith("Backward")
