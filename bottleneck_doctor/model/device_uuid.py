"""One way to write the identifier of an accelerator, for driver and torch write it differently."""

from __future__ import annotations

import re

KIND = re.compile(r"^(?:(?:GPU|MIG)-)+", re.IGNORECASE)


def bare_uuid(text: str) -> str:
    """The identifier alone, in small letters: NVML says ``GPU-…`` and ``MIG-…``, torch's device properties
    neither. Empty where there is none."""
    return KIND.sub("", text.strip()).lower()
