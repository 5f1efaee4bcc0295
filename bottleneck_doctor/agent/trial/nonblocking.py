"""Lets copies of pinned tensors to CUDA go on beside the loop: ``to`` and ``cuda`` do not wait for them.

No options. Never in the other direction, and never where the call says itself whether to wait. Not yet proven
on hardware.
"""

from __future__ import annotations

from ..hints import Any, Callable, Done, Table
from .apply import wrap


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch is complete."""

    def patch(torch: Any) -> None:
        for name in ("to", "cuda"):
            wrap(torch.Tensor, name, lambda original: _going_on(original, torch, done))

    return {"torch": patch}


def _going_on(original: Callable[..., Any], torch: Any, done: Done) -> Callable[..., Any]:
    always = original.__name__ == "cuda"

    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        said = "non_blocking" in kwargs or any(type(one) is bool for one in args)
        if said or not self.is_cpu or not (always or _is_cuda(torch, args, kwargs)):
            return original(self, *args, **kwargs)
        if self.is_pinned():
            kwargs["non_blocking"] = True
            done()
        return original(self, *args, **kwargs)

    return move


def _is_cuda(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``Tensor.to`` is asked to go to a CUDA device."""
    aim = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(aim, torch.Tensor):
        aim = aim.device
    if isinstance(aim, int):
        return bool(torch.version.cuda)
    return str(aim).startswith("cuda")
