"""How fast this device is, in the few ways by which the patients choose the sizes of their work."""

import argparse
import json
import mmap
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

SIDE = 4096  # of the square products that are timed
AWAKE_S = 0.5
COPIED_BYTES = 1 << 26
PAGE = 4096
PAGES = 1 << 16  # of the file whose pages are read cold: 256 MiB
READS = 400
ATTENTION = (4, 16, 2048, 64)  # sentences, heads, words, width of a head
IMAGES = (64, 128, 56, 56)  # images, channels, height, width


@dataclass(frozen=True)
class Speed:
    """Seconds are those of one forward and backward pass. ``read_s``: one page past the page cache; 0 where
    the file system cannot."""

    half_flops: float = 1e9
    single_flops: float = 1e9
    convolution_s: float = 1.0
    attention_s: float = 1.0
    pageable_bytes_per_s: float = 1e7
    read_s: float = 0.0


def speed(device: torch.device, data: Path) -> Speed:
    """Time the device for about a second; on a CPU, where only the Python is rehearsed, do as if slow."""
    if device.type == "cpu":
        return Speed(read_s=read_seconds(data))
    awake(half(device))
    batch = torch.ones(COPIED_BYTES, dtype=torch.uint8)  # written to: pages never touched are all one page
    return Speed(
        half_flops=2 * SIDE**3 / seconds(product(half(device))),
        single_flops=2 * SIDE**3 / seconds(product(torch.float32)),
        convolution_s=seconds(convolution()),
        attention_s=seconds(attention(half(device))),
        pageable_bytes_per_s=COPIED_BYTES / seconds(lambda: batch.to(device)),
        read_s=read_seconds(data),
    )


def half(device: torch.device) -> torch.dtype:
    """The 16 bits that this device's tensor cores know."""
    old = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8
    return torch.float16 if old else torch.bfloat16


def awake(dtype: torch.dtype) -> None:
    """Work until an idle device has raised its clocks."""
    multiply, until = product(dtype), time.perf_counter() + AWAKE_S
    while time.perf_counter() < until:
        for _ in range(10):
            multiply()
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], repeats: int = 10) -> float:
    """Device time of one call, after three that do not count."""
    for _ in range(3):
        work()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(repeats):
        work()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1000 / repeats


def product(dtype: torch.dtype) -> Callable[[], object]:
    """One square product."""
    a, b = (torch.randn(SIDE, SIDE, device="cuda").to(dtype) for _ in range(2))
    return lambda: a @ b


def convolution() -> Callable[[], object]:
    """One convolution in torch's default layout and precision, there and back."""
    layer = torch.nn.Conv2d(IMAGES[1], IMAGES[1], 3, padding=1, bias=False, device="cuda")
    x = torch.randn(IMAGES, device="cuda", requires_grad=True)
    return lambda: layer(x).sum().backward()


def attention(dtype: torch.dtype) -> Callable[[], object]:
    """One attention that writes its scores to memory, there and back."""
    x = torch.randn(ATTENTION, device="cuda", requires_grad=True)
    return lambda: written_out(*[x.to(dtype)] * 3).sum().backward()


def written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as product, softmax, product."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


def cold_file(data: Path) -> Path:
    """A file of random pages on the disk, made once and kept for the next run."""
    path = data / "pages.bin"
    if not path.exists() or path.stat().st_size != PAGE * PAGES:
        data.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        with draft.open("wb") as file:
            for _ in range(PAGE * PAGES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    return path


def read_seconds(data: Path) -> float:
    """How long one page takes past the page cache, read one after the other from places all over a file."""
    try:
        descriptor = os.open(cold_file(data), os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return 0.0
    page = mmap.mmap(-1, PAGE)
    places = torch.randint(PAGES, (READS,), generator=torch.Generator().manual_seed(1)).tolist()
    try:
        began = time.perf_counter()
        for place in places:
            os.preadv(descriptor, [page], place * PAGE)
        return (time.perf_counter() - began) / READS
    except OSError:
        return 0.0
    finally:
        os.close(descriptor)


def main() -> None:
    """Measure and write it down, so that sick, cured and watched runs do the same work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    found = speed(torch.device(given.device), given.data)
    given.write.write_text(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
