"""A stand-in for ``bdoc run``: supervises the command in its arguments and leaves as that left."""

import dataclasses
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bottleneck_doctor.launch.start import CannotStart, plan
from bottleneck_doctor.launch.supervise import supervise


def main(report: str, argv: list[str]) -> int:
    """Supervise ``argv`` and write what is known at its end to ``report``."""
    try:
        ended = supervise(plan(None, None, argv, [], sys.executable), os.environ, lambda pid: 0.05)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return error.status
    Path(report).write_text(json.dumps(dataclasses.asdict(ended)))
    return ended.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
