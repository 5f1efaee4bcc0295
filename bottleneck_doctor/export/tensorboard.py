"""TensorBoard: scalars, as 32-bit floats, and the verdict as text, in an event file of a folder of logs."""

from __future__ import annotations

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from .data import ExportData


def carry(address: str, data: ExportData) -> str:
    """Add a file of events; those that are there stay. All are at step 0, at the instant of the run's end."""
    words = {**data.verdict, **data.run}
    table = "\n".join(f"| {name} | `{word}` |" for name, word in words.items())
    writer = EventFileWriter(address)
    for summary in (
        *(scalar_pb(one.path.replace(".", "/", 1), one.value, one.about) for one in data.values),
        text_pb("bdoc/verdict", f"| | |\n|---|---|\n{table}"),
    ):
        writer.add_event(Event(wall_time=data.whole.end_ns / 1e9, step=0, summary=summary))
    writer.close()
    return ""
