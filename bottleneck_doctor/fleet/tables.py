"""The tables of a fleet, column by column, and how a report becomes their rows."""

from __future__ import annotations

from ..model.report import SCHEMA, SCHEMA_VERSION

# Name, type, meaning: what CREATE TABLE and the site's reference are made of.
TABLES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "runs": (
        ("run", "BIGINT", "the run's key: a hash of host, start and duration"),
        ("file", "VARCHAR", "where its report or profile lay"),
        ("bdoc", "VARCHAR", "the version that drew the conclusions; null where a report does not say"),
        ("job", "VARCHAR", "script and arguments; of the script's path the name alone"),
        ("host", "VARCHAR", "the machine; of a merged profile that of the rank it is about"),
        ("started_at", "TIMESTAMP", "UTC"),
        ("duration_s", "DOUBLE", "seconds from launch to exit"),
        ("exit_status", "INTEGER", "the script's"),
        ("torch", "VARCHAR", "its version"),
        ("cpu", "VARCHAR", "model"),
        ("cores", "DOUBLE", "that the job was given, on one machine"),
        ("gpu", "VARCHAR", "model of the first"),
        ("gpus", "INTEGER", "that the job could see, on one machine"),
        ("hosts", "INTEGER", "machines of the job; more than one only in merged profiles"),
        ("steady_steps", "BIGINT", "steps behind the metrics"),
        ("step_s", "DOUBLE", "mean steady step in seconds"),
        ("step_low_s", "DOUBLE", "lower end of its 90 % interval"),
        ("step_high_s", "DOUBLE", "upper end"),
        ("bound", "VARCHAR", "the verdict's, as in the report"),
        ("cause", "VARCHAR", "the verdict's"),
        ("confidence", "VARCHAR", "the verdict's"),
        ("judged", "VARCHAR", "saving, healthy, unknown or inconclusive"),
        ("core_hours", "DOUBLE", "hours x cores x hosts"),
        ("gpu_hours", "DOUBLE", "hours x gpus x hosts"),
        ("wasted_share", "DOUBLE", "of these: what the best remedy saves; 0 if healthy, null if not known"),
        ("wasted_remedy", "VARCHAR", "that remedy"),
        ("wasted_cause", "VARCHAR", "the cause of the finding that it cures"),
    ),
    "remedies": (
        ("run", "BIGINT", "key of runs"),
        ("remedy", "VARCHAR", "id"),
        ("finding", "VARCHAR", "id of what it cures"),
        ("cause", "VARCHAR", "the finding's"),
        ("basis", "VARCHAR", "replay, amdahl or bound"),
        ("scope", "VARCHAR", "what the speedup is of: step or run"),
        ("apply", "VARCHAR", "env, hook, hook~, convert, manual or admin"),
        ("low", "DOUBLE", "lower end of the predicted speedup, a ratio"),
        ("likely", "DOUBLE", "the predicted speedup; null where only the bound is known"),
        ("high", "DOUBLE", "upper end, or the bound"),
        ("saved_share", "DOUBLE", "of the run's hours; null where likely is, or without a ledger"),
    ),
    "findings": (
        ("run", "BIGINT", "key of runs"),
        ("finding", "VARCHAR", "id"),
        ("cause", "VARCHAR", "that it belongs to"),
        ("severity", "VARCHAR", "primary, secondary or notice"),
    ),
    "metrics": (
        ("run", "BIGINT", "key of runs"),
        ("metric", "VARCHAR", "name"),
        ("value", "DOUBLE", "null where not measured"),
        ("unit", "VARCHAR", "of value, low and high"),
        ("low", "DOUBLE", "lower end of the 90 % interval"),
        ("high", "DOUBLE", "upper end"),
        ("n", "BIGINT", "samples"),
    ),
    "ledger": (
        ("run", "BIGINT", "key of runs"),
        ("part", "VARCHAR", "of the run's wall time, from launch to exit"),
        ("share", "DOUBLE", "they sum to 1"),
    ),
    "files": (
        ("file", "VARCHAR", "name"),
        ("runs", "BIGINT", "in it"),
    ),
}  # fmt: skip

CREATE = "; ".join(
    f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind, _ in columns)})"
    for table, columns in TABLES.items()
)

# What is read of a report: fields that it lacks become null, and so do those of another type.
REPORT = """{
    "schema": "VARCHAR", "schema_version": "BIGINT", "bdoc": "VARCHAR",
    "run": {"command": ["VARCHAR"], "started_at": "VARCHAR", "duration_s": "DOUBLE", "exit_status": "INTEGER",
        "host": "VARCHAR", "torch": "VARCHAR",
        "machine": {"cpu": "VARCHAR", "cores": "DOUBLE", "gpus": ["VARCHAR"], "hosts": "INTEGER"}},
    "quality": {"steady_steps": "BIGINT"},
    "metrics": "MAP(VARCHAR, STRUCT(value DOUBLE, unit VARCHAR, low DOUBLE, high DOUBLE, n BIGINT))",
    "ledger": [{"part": "VARCHAR", "share": "DOUBLE"}],
    "verdict": {"bound": "VARCHAR", "cause": "VARCHAR", "confidence": "VARCHAR"},
    "findings": [{"id": "VARCHAR", "cause": "VARCHAR", "severity": "VARCHAR"}],
    "remedies": [{"id": "VARCHAR", "finding": "VARCHAR", "apply": "VARCHAR", "scope": "VARCHAR",
        "predicted_speedup": {"low": "DOUBLE", "likely": "DOUBLE", "high": "DOUBLE", "basis": "VARCHAR"}}]
}"""

# `texts` (file, text) become `parsed` (file, r, why, run): why is null for a report that can be believed.
PARSE = f"""
CREATE OR REPLACE TEMP TABLE parsed AS
WITH read AS (
    SELECT file, TRY(json_transform(text, '{REPORT}')) AS r FROM texts
), timed AS (
    SELECT *, TRY_CAST(r.run.started_at AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS started_at FROM read
)
SELECT file, r, started_at, CASE
    WHEN r IS NULL THEN 'not readable as JSON'
    WHEN r.schema IS NULL THEN 'names no schema, expected {SCHEMA}'
    WHEN r.schema = 'bottleneck-doctor/profile' THEN 'profile'
    WHEN r.schema <> '{SCHEMA}' THEN 'its schema is ' || left(r.schema, 60) || ', expected {SCHEMA}'
    WHEN r.schema_version > {SCHEMA_VERSION} THEN 'written by a newer bdoc'
    WHEN r.schema_version IS NULL OR r.schema_version < 1 THEN 'schema_version is missing'
    WHEN started_at IS NULL THEN 'run.started_at is no instant'
    WHEN started_at NOT BETWEEN '2000-01-01' AND now()::TIMESTAMP + INTERVAL 1 DAY
        THEN 'run.started_at is not in the past'
    WHEN r.run.host IS NULL OR r.verdict.bound IS NULL THEN 'run.host or verdict.bound is missing'
    WHEN NOT coalesce(r.run.duration_s BETWEEN 0 AND 1e9, false) THEN 'run.duration_s is no duration'
    WHEN NOT coalesce(r.run.machine.cores BETWEEN 0 AND 1e6, false) THEN 'run.machine.cores is no number'
    WHEN NOT coalesce(r.run.machine.hosts, 1) BETWEEN 1 AND 1e6 THEN 'run.machine.hosts is no number'
    END AS why,
    (md5_number_lower(concat_ws(' ', r.run.host, started_at, r.run.duration_s)) >> 1)::BIGINT AS run
FROM timed"""

REMEDIES = """
INSERT INTO remedies
WITH parts AS (
    SELECT run, r, CASE WHEN len(r.ledger) > 0 THEN coalesce(list_sum(list_transform(r.ledger, lambda x:
        CASE WHEN x.part = 'training steps' AND x.share BETWEEN 0 AND 1 THEN x.share END)), 0)
        END AS training,
        coalesce(list_sum(list_transform(r.ledger, lambda x:
        CASE WHEN x.part = 'evaluation' AND x.share BETWEEN 0 AND 1 THEN x.share END)), 0) AS evaluation
    FROM fresh
), offered AS (
    SELECT run, training, evaluation, r.findings AS findings, unnest(r.remedies) AS o FROM parts
), caused AS (
    SELECT *, list_filter(findings, lambda x: x.id = o.finding)[1].cause AS cause FROM offered
), shortened AS (
    -- A faster step shortens the training's steps and nothing else of the run. The scope "run" stands for
    -- training and evaluation together, except for starting workers less often: there it is the whole run.
    SELECT *, CASE WHEN o.scope IS DISTINCT FROM 'run' THEN training
        WHEN cause = 'input.worker_startup' THEN 1 ELSE training + evaluation END AS part FROM caused
)
SELECT run, o.id, o.finding, cause, o.predicted_speedup.basis, o.scope, o.apply, o.predicted_speedup.low,
    CASE WHEN isfinite(o.predicted_speedup.likely) THEN o.predicted_speedup.likely END AS likely,
    o.predicted_speedup.high,
    CASE WHEN likely > 0 THEN (1 - 1 / likely) * CASE WHEN part > 1 THEN 1 ELSE part END END
FROM shortened"""

RUNS = """
INSERT INTO runs
WITH best AS (
    SELECT run, max(saved_share) AS share, arg_max(remedy, saved_share) AS remedy,
        arg_max(cause, saved_share) AS cause
    FROM remedies WHERE saved_share > 0 AND run IN (SELECT run FROM fresh) GROUP BY run
), judged AS (
    SELECT f.*, best.*  EXCLUDE (run), CASE WHEN r.verdict.bound = 'inconclusive' THEN 'inconclusive'
        WHEN share > 0 THEN 'saving'
        WHEN r.verdict.bound = 'balanced' THEN 'healthy' ELSE 'unknown' END AS judged,
        list_transform(r.run.command, lambda x:
            CASE WHEN ends_with(x, '.py') THEN parse_filename(x) ELSE x END) AS line,
        r.run.duration_s / 3600 * coalesce(r.run.machine.hosts, 1) AS hours,
        coalesce(len(r.run.machine.gpus), 0) AS gpus, r.metrics['step_time_s'] AS step
    FROM fresh AS f LEFT JOIN best USING (run)
)
SELECT run, file, nullif(r.bdoc, ''), array_to_string(
        CASE WHEN regexp_matches(line[1], '(^|/)python[0-9.]*$') THEN line[2:] ELSE line END, ' '),
    r.run.host, started_at, r.run.duration_s, r.run.exit_status, r.run.torch, r.run.machine.cpu,
    r.run.machine.cores, r.run.machine.gpus[1], gpus, coalesce(r.run.machine.hosts, 1),
    r.quality.steady_steps, step.value, step.low, step.high, r.verdict.bound, r.verdict.cause,
    r.verdict.confidence, judged,
    hours * r.run.machine.cores, hours * gpus,
    CASE judged WHEN 'saving' THEN share WHEN 'healthy' THEN 0 END,
    CASE WHEN judged = 'saving' THEN remedy END, CASE WHEN judged = 'saving' THEN cause END
FROM judged"""

FINDINGS = """
INSERT INTO findings SELECT run, f.id, f.cause, f.severity
FROM (SELECT run, unnest(r.findings) AS f FROM fresh)"""
METRICS = """
INSERT INTO metrics SELECT run, m.key, m.value.value, m.value.unit, m.value.low, m.value.high, m.value.n
FROM (SELECT run, unnest(map_entries(r.metrics)) AS m FROM fresh)"""
LEDGER = """
INSERT INTO ledger SELECT run, l.part, l.share FROM (SELECT run, unnest(r.ledger) AS l FROM fresh)"""

FILES = "INSERT INTO files SELECT file, count(*) FROM parsed WHERE why IS NULL GROUP BY ALL"

# A later report of a run replaces an earlier one.
FRESH = """
CREATE OR REPLACE TEMP TABLE fresh AS SELECT file, r, started_at, run FROM parsed WHERE why IS NULL
QUALIFY row_number() OVER (PARTITION BY run ORDER BY file) = 1"""
FORGET = tuple(
    f"DELETE FROM {table} WHERE run IN (SELECT run FROM fresh)" for table in TABLES if table != "files"
)
FILL = (FRESH, *FORGET, REMEDIES, RUNS, FINDINGS, METRICS, LEDGER, FILES)
