"""The page about the tables of `bdoc fleet`, from what creates them."""

from __future__ import annotations

from bottleneck_doctor.fleet.tables import TABLES

INTRODUCTION = """\
# Fleet

`bdoc fleet FILES --to-parquet FOLDER` writes these tables, each into a file of its name (`runs.parquet`), and
`--sql` is asked of them. Shares run 0 to 1, instants are UTC. Columns are only ever added."""


def tables_page() -> str:
    """Each table with its columns."""
    lines = [INTRODUCTION, ""]
    for table, columns in TABLES.items():
        rows = [f"| `{name}` | {kind} | {said} |" for name, kind, said in columns]
        lines += [f"## {table}", "", "| column | type | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)
