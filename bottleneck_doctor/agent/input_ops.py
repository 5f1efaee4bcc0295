"""Times decoders, decompression and the opening of container files (HDF5, zip, tar) inside a fetch."""

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


def decoders() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every decoder that we know."""
    return {module: _decoder_patcher(names) for module, names in DECODERS.items()}


def _decoder_patcher(names: tuple[str, ...]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, _timed_decoder)


_decoding = [0]


def _timed_decoder(original: Callable[..., Any]) -> Callable[..., Any]:
    def decode(*args: Any, **kwargs: Any) -> Any:
        if not state.in_fetch or _decoding[0]:
            return original(*args, **kwargs)
        _decoding[0] = 1
        start = thread_time_ns()
        try:
            return original(*args, **kwargs)
        finally:
            _decoding[0] = 0
            state.decode_ns += thread_time_ns() - start

    return decode


# module -> where whole blocks come out, so that reading line by line costs nothing extra
UNPACKERS = {
    "zlib": ("decompress",),
    "bz2": ("decompress",),
    "lzma": ("decompress",),
    "gzip": ("_GzipReader.read", "decompress"),
    "_compression": ("DecompressReader.read",),
    "compression._common._streams": ("DecompressReader.read",),
    "zipfile": ("ZipExtFile._read1",),
    "lz4.frame": ("decompress",),
    "zstandard": ("decompress",),
}


def unpackers() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every way to unpack that we know."""
    return {module: _unpacker_patcher(names) for module, names in UNPACKERS.items()}


def _unpacker_patcher(names: tuple[str, ...]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, _timed_unpacker)


_unpacking = [0]


def _timed_unpacker(original: Callable[..., Any]) -> Callable[..., Any]:
    def unpack(*args: Any, **kwargs: Any) -> Any:
        if not state.in_fetch or _unpacking[0]:
            return original(*args, **kwargs)
        _unpacking[0] = 1
        start = thread_time_ns()
        try:
            data = original(*args, **kwargs)
        finally:
            _unpacking[0] = 0
            state.unpack_ns += thread_time_ns() - start
        state.unpacked += len(data) if isinstance(data, bytes) else 0
        return data

    return unpack


# module -> what reads a container's table of contents
CONTAINERS = {
    "zipfile": ("ZipFile.__init__",),
    "tarfile": ("TarFile.__init__", "TarFile.getmembers"),
    "h5py._hl.files": ("File.__init__",),
    "tables.file": ("File.__init__",),
    "pyarrow.parquet.core": ("ParquetFile.__init__",),
}
UNHEARD = ("h5py._hl.files", "tables.file", "pyarrow.parquet.core")  # they open in C: no audit event says so
FILES_AT_MOST = 64


def containers() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every container that we know."""
    return {
        module: _container_patcher(names, _timed_container(module in UNHEARD))
        for module, names in CONTAINERS.items()
    }


def _container_patcher(names: tuple[str, ...], build: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, build)


class Opened:
    """What the containers opened during this fetch have cost so far."""

    def __init__(self) -> None:
        self.depth = self.count = self.taken_ns = self.cpu_ns = 0
        self.files: set[str] = set()


opened = Opened()


def _timed_container(unheard: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def open_container(*args: Any, **kwargs: Any) -> Any:
            if not state.in_fetch or opened.depth or (unheard and not _named(args)):
                return original(*args, **kwargs)
            opened.depth = 1
            start, cpu = now(), thread_time_ns()
            try:
                return original(*args, **kwargs)
            finally:
                opened.depth = 0
                opened.count += 1
                opened.taken_ns += now() - start
                opened.cpu_ns += thread_time_ns() - cpu
                if unheard:
                    _say(args)

        return open_container

    return build


def _named(args: tuple[Any, ...]) -> bool:
    """Whether a file is opened: h5py builds the same object around one that is open already."""
    return len(args) > 1 and (isinstance(args[1], (str, bytes)) or hasattr(args[1], "__fspath__"))


@quiet
def _say(args: tuple[Any, ...]) -> None:
    """Stands for the open event that a library in C does not raise."""
    state.opens += 1
    path = os.fsdecode(args[1])
    if path not in opened.files and len(opened.files) < FILES_AT_MOST:
        opened.files.add(path)
        state.writer.fact(fact="file", path=path)


def note(start_ns: int, thing: int) -> None:
    """A fetch is over: write down what its containers cost, and begin anew."""
    if opened.count:
        state.row(wire.CONTAINER, start_ns, opened.taken_ns, opened.count, opened.cpu_ns, thing=thing)
    opened.count = opened.taken_ns = opened.cpu_ns = 0


def watchers() -> list[Table]:
    """``{module: callback}`` for every decoder, way to unpack and container that we know."""
    return [decoders(), unpackers(), containers()]
