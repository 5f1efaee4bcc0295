"""Times decoders on the training's own pictures, from memory; a script of its own, in the user's interpreter.

Standard library, and whatever decoders that interpreter has. Writes nothing.
"""

from __future__ import annotations

import importlib
import io
import time
from collections.abc import Callable
from typing import Any

PICTURES, FEWER = 32, 16  # fewer where nobody asked for it
LARGEST_FILE = 16 << 20
EACH_S, SHORTER_S = 0.2, 0.08  # for one pass of the slowest way; fewer pictures where they take longer
PASSES = 2  # the quicker one counts
QUALITY = 95
SMALLER = 4.0  # times the pixels of a finished sample: twice the side [findings/decode_bound.py]

Decode = Callable[[bytes], object]


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: paths, the decoder that the training used, the ``side`` of a finished sample in pixels (0:
    not known), and whether to be ``short``. One row for each way of decoding, what needs no other package
    first: the time may end."""
    short = request.get("short", False)
    originals = [_content(path) for path in request["paths"][: FEWER if short else PICTURES]]
    jpeg = [data for data in originals if data[:2] == b"\xff\xd8"]
    usual = _way(request["used"]) or _way("PIL")
    if usual is None:
        return
    chosen = jpeg if 2 * len(jpeg) > len(originals) else originals
    pictures = _some(usual, chosen, SHORTER_S if short else EACH_S)
    _tell(tell, request["used"], _way(request["used"]), pictures)
    if pillow := _way("PIL"):
        if request["used"] == "PIL":
            _made_small(tell, pictures, request.get("side", 0), bool(jpeg))
        _stored_otherwise(tell, pictures, pillow, bool(jpeg))
    for name in MAKERS:
        if name != request["used"] and (jpeg or not name.startswith("PIL half")):
            _tell(tell, name, _way(name), pictures)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE)
    except OSError:
        return b""


def _some(decode: Decode, pictures: list[bytes], seconds: float) -> list[bytes]:
    """As many of the pictures that this decoder understands as fit into the time."""
    chosen: list[bytes] = []
    until = time.thread_time() + seconds
    for data in pictures:
        try:
            decode(data)
        except Exception:
            continue
        chosen.append(data)
        if time.thread_time() > until:
            break
    return chosen


def _tell(tell: Callable[..., None], name: str, decode: Decode | None, pictures: list[bytes]) -> None:
    """One row, unless this decoder is not there or does not understand all of the pictures."""
    if decode is None:
        return
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


def _made_small(tell: Callable[..., None], pictures: list[bytes], side: int, are_jpeg: bool) -> None:
    """Decoding and resizing to ``side``: of the pictures, of what the decoder makes smaller itself, and of
    pictures stored at twice that side. Only where they are at least that large."""
    image = _module("PIL.Image")
    sizes = [image.open(io.BytesIO(data)).size for data in pictures]
    if not side or any(width * height < SMALLER * side * side for width, height in sizes):
        return

    def resized(data: bytes, drafted: bool = False, to: int = side) -> Any:
        picture = image.open(io.BytesIO(data))
        if drafted:
            picture.draft("RGB", (2 * side, 2 * side))
        return picture.convert("RGB").resize((to, to), image.Resampling.BILINEAR)

    _tell(tell, "resized", resized, pictures)
    if are_jpeg:
        _tell(tell, "drafted", lambda data: resized(data, drafted=True), pictures)
    _tell(tell, "stored small", resized, [_as_jpeg(resized(data, to=2 * side)) for data in pictures])


def _as_jpeg(picture: Any) -> bytes:
    kept = io.BytesIO()
    picture.save(kept, "JPEG", quality=QUALITY)
    return kept.getvalue()


def _as_array(numpy: Any, picture: Any) -> bytes:
    kept = io.BytesIO()
    numpy.save(kept, numpy.asarray(picture))
    return kept.getvalue()


def _way(name: str) -> Decode | None:
    """A decoder of this interpreter; imported when it is its turn, for that may take a second."""
    path, make = MAKERS[name]
    module = _module(path)
    return make(module) if module else None


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


def _dali(dali: Any) -> Decode | None:
    """DALI's decoder on one thread of the CPU: the same work as the others'. Its threads are for many."""
    fn, numpy = _module("nvidia.dali.fn"), _module("numpy")
    if not fn or not numpy:
        return None
    pipeline = dali.Pipeline(
        batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1, exec_pipelined=False,
        exec_async=False,
    )  # fmt: skip
    with pipeline:
        pipeline.set_outputs(fn.decoders.image(fn.external_source(name="data"), device="cpu"))
    pipeline.build()

    def decode(data: bytes) -> object:
        pipeline.feed_input("data", [numpy.frombuffer(data, numpy.uint8)])
        return pipeline.run()

    return decode


MAKERS: dict[str, tuple[str, Callable[[Any], Decode | None]]] = {
    "PIL": ("PIL.Image", _pillow),
    "PIL half": ("PIL.Image", _pillow_half),
    "OpenCV": ("cv2", _opencv),
    "simplejpeg": ("simplejpeg", _simplejpeg),
    "TurboJPEG": ("turbojpeg", _turbojpeg),
    "DALI": ("nvidia.dali", _dali),
    "torchvision": ("torchvision.io.image", _torchvision),
}
