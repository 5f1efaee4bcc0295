"""Puts torch's meta tensors on the simulated device: trainings say ``"meta"`` where others say ``"cuda"``.

What torch does with them costs the host what issuing operators costs, and computes nothing; what would copy,
or wait for the device, does so on the simulated one. The agent's hooks on tensors go around these functions,
as they go around torch's own.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.simulated.device import Device

PLACE = "meta"


def place_on(device: Device) -> None:
    """From now on this process's meta tensors are that device's."""
    moved = torch.Tensor.to

    def to(self: torch.Tensor, aim: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.is_cpu and aim == PLACE:
            device.copy(self.nbytes, blocks=not (kwargs.get("non_blocking") and self.is_pinned()))
        return moved(self, aim, *args, **kwargs)

    def item(self: torch.Tensor) -> float:
        if not self.is_cpu:
            device.read()
            return 0.0
        value: float = plain_item(self)
        return value

    plain_item = torch.Tensor.item
    changes = {"to": to, "item": item, "is_pinned": _is_pinned, "pin_memory": _pin_memory}
    for name, function in changes.items():
        setattr(torch.Tensor, name, function)
    torch._C._accelerator_isAllocatorInitialized = lambda: True  # type: ignore[attr-defined]
    torch._C._accelerator_emptyCache = device.empty_cache  # type: ignore[attr-defined]


def _pin_memory(self: torch.Tensor) -> torch.Tensor:
    self.__dict__["pinned"] = True
    return self


def _is_pinned(self: torch.Tensor) -> bool:
    return bool(self.__dict__.get("pinned"))
