"""``python -m tests.proving`` does what ``python -m tests.proving.run`` does."""

from __future__ import annotations

from tests.proving.run import main

raise SystemExit(main())
