"""Times decoders on the training's own pictures, from memory; a script of its own, in the user's interpreter.

Standard library, and whatever decoders that interpreter has. Writes nothing.
"""

from __future__ import annotations

import importlib
import io
import time
from collections.abc import Callable
from typing import Any

PICTURES = 32
LARGEST_FILE = 16 << 20
EACH_S = 0.2  # for one pass of the slowest way; fewer pictures where they take longer
PASSES = 2  # the quicker one counts
QUALITY = 95

Decode = Callable[[bytes], object]


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: paths, and the decoder that the training used. One row for each way of decoding."""
    originals = [_content(path) for path in request["paths"][:PICTURES]]
    jpeg = [data for data in originals if data[:2] == b"\xff\xd8"]
    ways = _ways()
    usual = ways.get(request["used"]) or ways.get("PIL")
    if usual is None:
        return
    pictures = _some(usual, jpeg if 2 * len(jpeg) > len(originals) else originals)
    for name, decode in ways.items():
        if not name.startswith("PIL half") or jpeg:
            _tell(tell, name, decode, pictures)
    if "PIL" in ways:
        _stored_otherwise(tell, pictures, ways["PIL"], bool(jpeg))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE)
    except OSError:
        return b""


def _some(decode: Decode, pictures: list[bytes]) -> list[bytes]:
    """As many of the pictures that this decoder understands as fit into the time."""
    chosen: list[bytes] = []
    until = time.thread_time() + EACH_S
    for data in pictures:
        try:
            decode(data)
        except Exception:
            continue
        chosen.append(data)
        if time.thread_time() > until:
            break
    return chosen


def _tell(tell: Callable[..., None], name: str, decode: Decode, pictures: list[bytes]) -> None:
    """One row, unless this decoder does not understand all of the pictures."""
    times = []
    try:
        for _ in range(PASSES):
            began, worked = time.perf_counter(), time.process_time()
            for data in pictures:
                decode(data)
            times.append((time.process_time() - worked, time.perf_counter() - began))
    except Exception:
        return
    if pictures:
        cpu, wall = min(times)
        count = len(pictures)
        size = sum(map(len, pictures)) / count
        tell(subject="picture", variant=name, seconds=max(cpu, wall) / count, cpu_s=cpu / count,
             repeats=count, size_bytes=size)  # fmt: skip


def _stored_otherwise(
    tell: Callable[..., None], pictures: list[bytes], decode: Decode, are_jpeg: bool
) -> None:
    """The same pixels stored as JPEG, and raw: what decoding them would cost then."""
    image = _module("PIL.Image")
    opened = [image.open(io.BytesIO(data)).convert("RGB") for data in pictures]
    if not are_jpeg:
        _tell(tell, "stored as JPEG", decode, [_as_jpeg(one) for one in opened])
    numpy = _module("numpy")
    if numpy:
        _tell(
            tell,
            "stored raw",
            lambda data: numpy.load(io.BytesIO(data)),
            [_as_array(numpy, one) for one in opened],
        )


def _as_jpeg(picture: Any) -> bytes:
    kept = io.BytesIO()
    picture.save(kept, "JPEG", quality=QUALITY)
    return kept.getvalue()


def _as_array(numpy: Any, picture: Any) -> bytes:
    kept = io.BytesIO()
    numpy.save(kept, numpy.asarray(picture))
    return kept.getvalue()


def _ways() -> dict[str, Decode]:
    """The decoders of this interpreter by name. A module that is not there is not asked for twice."""
    found = {name: make(module) for name, (path, make) in MAKERS.items() if (module := _module(path))}
    return {name: decode for name, decode in found.items() if decode is not None}


def _module(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except Exception:
        return None


def _pillow(image: Any) -> Decode:
    return lambda data: image.open(io.BytesIO(data)).load()


def _pillow_half(image: Any) -> Decode:
    def decode(data: bytes) -> object:
        picture = image.open(io.BytesIO(data))
        picture.draft("RGB", (picture.width // 2, picture.height // 2))
        return picture.load()

    return decode


def _opencv(cv2: Any) -> Decode | None:
    numpy = _module("numpy")
    return numpy and (lambda data: _known(cv2.imdecode(numpy.frombuffer(data, numpy.uint8), 1)))


def _known(pixels: object) -> object:
    if pixels is None:
        raise ValueError("not decoded")
    return pixels


def _simplejpeg(simplejpeg: Any) -> Decode:
    return lambda data: simplejpeg.decode_jpeg(data)


def _turbojpeg(turbojpeg: Any) -> Decode | None:
    try:
        decoder = turbojpeg.TurboJPEG()
    except Exception:  # the library behind it is not installed
        return None
    return lambda data: decoder.decode(data)


def _torchvision(io_image: Any) -> Decode:
    torch = _module("torch")
    torch.set_num_threads(1)
    return lambda data: io_image.decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8))


MAKERS: dict[str, tuple[str, Callable[[Any], Decode | None]]] = {
    "PIL": ("PIL.Image", _pillow),
    "PIL half": ("PIL.Image", _pillow_half),
    "OpenCV": ("cv2", _opencv),
    "simplejpeg": ("simplejpeg", _simplejpeg),
    "TurboJPEG": ("turbojpeg", _turbojpeg),
    "torchvision": ("torchvision.io.image", _torchvision),
}
