"""Times decoders and the opening of container files (HDF5, zip, tar) inside a fetch."""

from __future__ import annotations

import os
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet, replace_each
from .hints import Any, Callable, Table
from .state import state

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
# module -> what reads a container's table of contents
CONTAINERS = {"zipfile": ("ZipFile.__init__",), "tarfile": ("TarFile.__init__", "TarFile.getmembers")}
# The same of those that open the file in C: no audit event says so.
UNHEARD = {
    "h5py._hl.files": ("File.__init__",),
    "tables.file": ("File.__init__",),
    "pyarrow.parquet.core": ("ParquetFile.__init__",),
}
FILES_AT_MOST = 64


class _Spent:
    """Of one kind of call during this fetch. Calls inside of a call are the outer one's."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.inside = False
        self.reset()

    def reset(self) -> None:
        """A fetch begins."""
        self.count = self.wall_ns = self.cpu_ns = 0


decoded, opened = _Spent(), _Spent()


def _timed(spent: _Spent, unheard: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not state.in_fetch or spent.inside or (unheard and not _named(args)):
                return original(*args, **kwargs)
            start, cpu = now(), thread_time_ns()
            spent.inside = True
            try:
                return original(*args, **kwargs)
            finally:
                spent.inside = False
                spent.count += 1
                spent.wall_ns += now() - start
                spent.cpu_ns += thread_time_ns() - cpu
                if unheard:
                    _note_file(args)

        return call

    return build


def _named(args: tuple[Any, ...]) -> bool:
    """Whether a file is opened: h5py builds the same object around one that is open already."""
    return len(args) > 1 and (isinstance(args[1], (str, bytes)) or hasattr(args[1], "__fspath__"))


@quiet
def _note_file(args: tuple[Any, ...]) -> None:
    """Stands for the open event that a library in C does not raise."""
    state.opens += 1
    path = os.fsdecode(args[1])
    if path not in opened.files and len(opened.files) < FILES_AT_MOST:
        opened.files.add(path)
        state.writer.fact(fact="file", path=path)


def reset() -> None:
    """A sampled fetch begins."""
    for spent in (decoded, opened):
        spent.reset()


def note(start_ns: int, thing: int) -> None:
    """It is over: a row of what was opened, if anything was."""
    if opened.count:
        state.row(wire.CONTAINER, start_ns, opened.wall_ns, opened.count, opened.cpu_ns, thing=thing)


def watchers() -> list[Table]:
    """``{module: callback}`` for every decoder and container that we know."""
    kinds = (
        (DECODERS, _timed(decoded)),
        (CONTAINERS, _timed(opened)),
        (UNHEARD, _timed(opened, unheard=True)),
    )
    return [{module: _patcher(names, build) for module, names in table.items()} for table, build in kinds]


def _patcher(names: tuple[str, ...], build: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, build)
