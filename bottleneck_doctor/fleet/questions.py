"""What is asked of a fleet: waste by cause and by job, savings by remedy."""

from __future__ import annotations

from typing import Any

import duckdb

from ..model.errors import UsageError
from ..model.report import Fleet, Hours, RefusedFile, Saving, Totals, Wasted
from .reading import reason

SHOWN = 20  # rows of an answer, and files that were refused


def ask(store: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows that a query of the user's own returns; raises ``UsageError``."""
    try:
        done = store.execute(sql)
        return [name for name, *_ in done.description or []], done.fetchall()
    except duckdb.Error as problem:
        raise UsageError(f"--sql: {reason(problem)}") from None


def answer(
    store: duckdb.DuckDBPyConnection, refused: list[RefusedFile], ignored: tuple[str, ...] = ()
) -> Fleet:
    """All answers over what the store holds; arguments that are ``ignored`` do not tell jobs apart."""
    names = "|".join(map(_literal, ignored))
    store.execute(VIEW, [rf" --?(?:{names})(?:[= ][^ ]+|$)" if names else "^$"])
    return Fleet(
        _totals(store),
        _wasted(store, "NULL"),
        _wasted(store, "job"),
        _savings(store),
        len(refused),
        refused[:SHOWN],
    )


# A row for each run, which all questions are asked of.
VIEW = """
CREATE OR REPLACE TEMP TABLE jobs AS
WITH limits AS (SELECT sum(core_hours) AS cores, sum(gpu_hours) AS gpus FROM runs)
SELECT run, regexp_replace(coalesce(job, '?'), ?, '', 'g') AS job, host, started_at, judged,
    wasted_cause, core_hours, gpu_hours, coalesce(wasted_share, 0) AS share,
    core_hours / nullif(limits.cores, 0) AS of_cores,
    gpu_hours / nullif(limits.gpus, 0) AS of_gpus
FROM runs, limits"""


def _literal(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "_-" else f"[{sign}]" for sign in name.lstrip("-"))


def _totals(store: duckdb.DuckDBPyConnection) -> Totals:
    ((runs, jobs, nodes, first, last, core, gpu, wasted_core, wasted_gpu, *judged),) = _rows(
        store,
        """SELECT count(*), count(DISTINCT job), count(DISTINCT host), min(started_at)::VARCHAR,
        max(started_at)::VARCHAR, coalesce(sum(core_hours), 0), coalesce(sum(gpu_hours), 0),
        coalesce(sum(core_hours * share), 0), coalesce(sum(gpu_hours * share), 0),
        count(*) FILTER (judged = 'saving'), count(*) FILTER (judged = 'healthy'),
        count(*) FILTER (judged = 'unknown'), count(*) FILTER (judged = 'inconclusive') FROM jobs""",
    )
    ((reports,),) = _rows(store, "SELECT coalesce(sum(runs), 0) FROM files")
    taken, wasted = Hours(core, gpu), Hours(wasted_core, wasted_gpu)
    repeated = max(0, int(reports) - runs)
    return Totals(runs, jobs, nodes, first, last, taken, wasted, *[*judged, repeated])


def _wasted(store: duckdb.DuckDBPyConnection, by: str) -> list[Wasted]:
    """Most first, by the share of all core-hours or of all GPU-hours, whichever is larger."""
    found = _rows(
        store,
        f"""SELECT wasted_cause, count(*), sum(core_hours), sum(gpu_hours), sum(core_hours * share) AS core,
        sum(gpu_hours * share) AS gpu, {by} AS name FROM jobs WHERE judged = 'saving'
        GROUP BY wasted_cause, name
        ORDER BY greatest(coalesce(sum(of_cores * share), 0), coalesce(sum(of_gpus * share), 0)) DESC,
        wasted_cause, name LIMIT {SHOWN}""",
    )
    return [
        Wasted(cause or "?", runs, Hours(cores, gpus), Hours(core, gpu), job)
        for cause, runs, cores, gpus, core, gpu, job in found
    ]


def _savings(store: duckdb.DuckDBPyConnection) -> list[Saving]:
    found = _rows(
        store,
        f"""SELECT remedy, mode(finding ORDER BY finding), count(*) FILTER (saved_share > 0) AS counted,
        coalesce(sum(core_hours * saved_share) FILTER (saved_share > 0), 0),
        coalesce(sum(gpu_hours * saved_share) FILTER (saved_share > 0), 0),
        count(*) FILTER (likely IS NULL) FROM remedies JOIN jobs USING (run)
        GROUP BY remedy HAVING counted > 0
        ORDER BY greatest(coalesce(sum(of_cores * saved_share) FILTER (saved_share > 0), 0),
        coalesce(sum(of_gpus * saved_share) FILTER (saved_share > 0), 0)) DESC, remedy LIMIT {SHOWN}""",
    )
    return [
        Saving(remedy, finding, runs, Hours(core, gpu), bound)
        for remedy, finding, runs, core, gpu, bound in found
    ]


def _rows(store: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = store.execute(query).fetchall()
    return found
