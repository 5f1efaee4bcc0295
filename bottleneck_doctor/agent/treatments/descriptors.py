"""Raises this process's limit of open files as far as it may without rights, as ``ulimit -n`` would.

No options.
"""

from __future__ import annotations

import resource

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """At once; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        done("the limit of %d open files can only be raised by an administrator" % hard)
        return {}
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    done()
    return {}
