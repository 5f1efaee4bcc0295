"""``python -m tests.bench`` does what ``python -m tests.bench.cost`` does."""

from __future__ import annotations

from tests.bench.cost import main

raise SystemExit(main())
