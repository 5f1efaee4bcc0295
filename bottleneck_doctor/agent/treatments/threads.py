"""Computes with so many threads, whatever the environment handed down and the script asked for.

Options: ``count``. Loader workers keep their one thread. Pools of other libraries follow OMP_NUM_THREADS,
which the treatment "environment" sets; OpenCV's follows here where it is loaded.
"""

from __future__ import annotations

import sys

from .moments import at_start

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """When the training begins: until then the script may set a number of its own."""
    count = int(options["count"])

    def act(torch: Any) -> None:
        torch.set_num_threads(count)
        vision: Any = sys.modules.get("cv2")
        if vision is not None:
            vision.setNumThreads(count)
        got = torch.get_num_threads()
        done("" if got == count else "torch computes with %d threads" % got)

    return at_start(act, done)
