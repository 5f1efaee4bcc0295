"""``BdocCallback``: watches a training that Lightning, the Trainer of Hugging Face or Accelerate runs."""

from __future__ import annotations

import os
import sys
from typing import Any

from .within import Watch, watched

BASES = {"lightning.pytorch": "Callback", "pytorch_lightning": "Callback", "transformers": "TrainerCallback"}


class BdocCallback:
    """A callback of Lightning and of the Trainer, and a block to enter for everything else.

    ``Trainer(callbacks=[BdocCallback()])`` for both, ``with BdocCallback():`` around a loop of Accelerate's.
    It watches from the beginning of the fit to its end, as ``watch(**options)`` does; every rank writes a
    profile, the first one shows the report if ``show``. Under ``bdoc run`` it does nothing.
    """

    def __new__(cls, *_: Any, **__: Any) -> BdocCallback:
        """An object of the frameworks' own classes, as far as they have been imported."""
        found = (getattr(sys.modules.get(module), name, None) for module, name in BASES.items())
        bases = tuple(one for one in found if one is not None and one not in cls.__mro__)
        kind = type(cls.__name__, (cls, *bases), {"__module__": cls.__module__}) if bases else cls
        made: BdocCallback = object.__new__(kind)
        return made

    def __init__(self, show: bool = True, **options: Any) -> None:
        self.watch: Watch | None = None
        self._show, self._options = show, options

    def __reduce__(self) -> Any:
        return _again, (self._show, self._options)

    def __enter__(self) -> BdocCallback:
        self._start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._stop(failed=kind is not None)

    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Lightning begins: before it wraps the model, so that ranks are seen to exchange."""
        if stage == "fit":
            self._start()

    def teardown(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Lightning has ended."""
        if stage == "fit":
            self._stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Lightning has failed, or was interrupted."""
        self._stop(failed=True)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer begins. It calls nothing when a training fails: a block still open ends here."""
        self._stop(failed=True)
        self._start()

    def on_train_end(self, *args: Any, **_: Any) -> None:
        """The Trainer has ended; Lightning, which calls this with two arguments, has yet to save."""
        if len(args) > 2:
            self._stop()

    def _start(self) -> None:
        if not watched():
            self.watch = Watch(self._options)
            self.watch.start()
            self._runs = True

    def _stop(self, failed: bool = False) -> None:
        if not self._runs or self.watch is None:
            return
        self._runs = False
        first, self.watch.failed = not _rank(), failed
        self.watch.stop()
        if self._show and first:
            self.watch.show()

    _runs = False


def _again(show: bool, options: dict[str, Any]) -> BdocCallback:
    return BdocCallback(show, **options)


def _rank() -> int:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0
