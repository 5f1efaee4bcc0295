"""``python -m tests.accuracy`` does what ``python -m tests.accuracy.run`` does."""

from __future__ import annotations

from tests.accuracy.run import main

raise SystemExit(main())
