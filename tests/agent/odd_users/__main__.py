"""``python -m tests.agent.odd_users [NAME]…``: lets users do what they do, each under its name."""

import sys

from tests.agent.odd_users import data, loops, samples, surroundings  # noqa: F401 - they list their users
from tests.agent.odd_users.rows import USERS

if __name__ == "__main__":
    for name in sys.argv[1:] or USERS:
        print("##", name, flush=True)
        try:
            USERS[name]()
        except BaseException as problem:
            print("raised", type(problem).__name__, str(problem).splitlines()[:1])
        sys.stdout.flush()
