"""Adds up the CPU time that decoders of images, audio and video take inside a fetch."""

from __future__ import annotations

from time import thread_time_ns

from .guard import quiet, replace_each
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# module -> attributes that turn compressed bytes into arrays
DECODERS = {
    "cv2": ("imread", "imdecode"),
    "simplejpeg": ("decode_jpeg",),
    "turbojpeg": ("TurboJPEG.decode",),
    "torchvision.io.image": ("decode_image", "decode_jpeg", "decode_png", "read_image"),
    "imageio.v2": ("imread",),
    "imageio.v3": ("imread",),
    "PIL.ImageFile": ("ImageFile.load",),
    "soundfile": ("read",),
    "librosa.core.audio": ("load",),
    "torchaudio": ("load",),
    "decord.video_reader": ("VideoReader.get_batch",),
    "torchcodec.decoders._video_decoder": ("VideoDecoder.get_frames_at", "VideoDecoder.get_frame_at"),
}


def watchers() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every decoder that we know."""
    return {module: _patcher(names) for module, names in DECODERS.items()}


def _patcher(names: tuple[str, ...]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, _timed(module.__name__))


_depth = [0]


_named: dict[str, Any] = {}


@quiet
def _name(module: str) -> None:
    """Write down once in each process's book which decoder runs."""
    if _named.get(module) is not state.book:
        _named[module] = state.book
        state.book.fact(fact="decoder", module=module, thing=state.inside.loader if state.inside else 0)


def _timed(module: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            if not state.in_fetch or _depth[0]:
                return original(*args, **kwargs)
            _depth[0] = 1
            start = thread_time_ns()
            try:
                return original(*args, **kwargs)
            finally:
                _depth[0] = 0
                state.decode_ns += thread_time_ns() - start
                _name(module)

        return decode

    return build
