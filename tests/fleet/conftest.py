"""What `bdoc fleet` needs is an extra: without it these tests are skipped."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")
