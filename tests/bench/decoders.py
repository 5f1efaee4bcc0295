"""Trains on JPEG files through each decoder that is installed, and holds the gains against what is promised.

    python -m tests.bench.decoders [--rounds 3] [--data FOLDER]

The ways take turns; the promises are those of ``bdoc run --calibrate`` on the first of them. What does not
import is named with the reason.
"""

from __future__ import annotations

import argparse
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.lab.run import diagnose, in_turn

PHOTOS, SIDE, BATCH = 96, 64, 16
STEPS, WARM = 60, 8
LIMIT_S = 900.0  # calibration has decoders to time, too
# way -> the module that it needs, and the remedy that advises it
WAYS = {
    "Pillow": ("PIL", ""),
    "Pillow, 2 workers": ("PIL", "workers-auto"),
    "Pillow, draft": ("PIL", "decode-scaled"),
    "simplejpeg": ("simplejpeg", "decoder-swap"),
    "TurboJPEG": ("turbojpeg", "decoder-swap"),
    "OpenCV": ("cv2", "decoder-swap"),
    "torchvision": ("torchvision.io", "decoder-swap"),
    "raw arrays": ("numpy", "reencode-offline"),
    "stored at twice the size": ("PIL", "resize-offline"),
    "DALI, 2 threads": ("nvidia.dali", "dali-pipeline"),
    "webdataset, one shard": ("webdataset", "pack-shards"),
    "torchcodec": ("torchcodec.decoders", "decoder-swap"),
}
Batches = Iterator[tuple[Any, Any]]


def paint(folder: Path) -> None:
    """Photos of 960 x 720 under sensor noise: as JPEG, as raw arrays, at twice the training size, and all of
    them in one tar file."""
    import numpy as np
    from PIL import Image

    if (folder / "ready").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    for index in range(PHOTOS):
        coarse = Image.fromarray(chance.integers(0, 255, (30, 40, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((960, 720), Image.Resampling.BICUBIC), np.int16)
        pixels = np.clip(smooth + chance.integers(-12, 12, smooth.shape), 0, 255).astype(np.uint8)
        picture = Image.fromarray(pixels)
        picture.save(folder / f"{index}.jpg", quality=90)
        picture.resize((2 * SIDE, 2 * SIDE)).save(folder / f"{index}.small.jpg", quality=95)
        np.save(folder / f"{index}.npy", pixels)
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for index in range(PHOTOS):
            shard.add(folder / f"{index}.jpg", arcname=f"{index:03d}.jpg")
    (folder / "ready").touch()


def decoder(way: str) -> Callable[[Path], Any]:
    """How a picture becomes an array of any size."""
    import numpy as np
    from PIL import Image

    module = importlib.import_module(WAYS[way][0])
    if way == "Pillow, draft":

        def draft(path: Path) -> Any:
            image = Image.open(path)
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            return image.convert("RGB")

        return draft
    turbo = module.TurboJPEG() if way == "TurboJPEG" else None
    ways: dict[str, Callable[[Path], Any]] = {
        "simplejpeg": lambda path: module.decode_jpeg(path.read_bytes()),
        "TurboJPEG": lambda path: turbo.decode(path.read_bytes())[..., ::-1],
        "OpenCV": lambda path: module.imread(str(path))[..., ::-1],
        "torchvision": lambda path: module.read_image(str(path)).permute(1, 2, 0).numpy(),
        # made for video and sound; a picture is a video of one frame to it
        "torchcodec": lambda path: module.VideoDecoder(path, dimension_order="NHWC")[0].numpy(),
        "raw arrays": lambda path: np.load(path.with_suffix(".npy")),
        "stored at twice the size": lambda path: Image.open(path.with_suffix(".small.jpg")).convert("RGB"),
    }
    return ways.get(way, lambda path: Image.open(io.BytesIO(path.read_bytes())).convert("RGB"))


def torch_batches(way: str, folder: Path) -> Batches:
    """A DataLoader's, for as long as anyone asks."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    decode = decoder(way)

    class Photos(Dataset[tuple[torch.Tensor, int]]):
        def __len__(self) -> int:
            return BATCH * 100

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return finished(decode(folder / f"{index % PHOTOS}.jpg")), index % 10

    workers = 2 if "workers" in way else 0
    loader = DataLoader(Photos(), BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    while True:
        yield from loader


def finished(picture: Any) -> Any:
    """A decoded picture as the training wants it: made small, flipped at random, floats."""
    import numpy as np
    import torch
    from PIL import Image

    image = picture if isinstance(picture, Image.Image) else Image.fromarray(np.ascontiguousarray(picture))
    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    if torch.rand(()) < 0.5:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float().div_(255)


def shard_batches(folder: Path) -> Batches:
    """webdataset's, from one tar file, decoded by Pillow and shuffled in a buffer."""
    import webdataset
    from torch.utils.data import DataLoader

    photos = webdataset.WebDataset(str(folder / "shard.tar"), shardshuffle=False)
    samples = photos.shuffle(PHOTOS).decode("pil").map(lambda one: (finished(one["jpg"]), 0)).repeat()
    yield from DataLoader(samples, BATCH)


def dali_batches(folder: Path) -> Batches:
    """DALI's, on the CPU."""
    import torch
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def pictures() -> Any:
        files = [str(folder / f"{index}.jpg") for index in range(PHOTOS)]
        data, label = fn.readers.file(
            files=files, labels=[index % 10 for index in range(PHOTOS)], random_shuffle=True
        )
        image = fn.resize(fn.decoders.image(data, device="cpu"), resize_x=SIDE, resize_y=SIDE)
        mirror = fn.random.coin_flip()
        return fn.crop_mirror_normalize(
            image, mirror=mirror, dtype=types.FLOAT, std=[255.0] * 3, output_layout="CHW"
        ), label

    pipeline = pictures()
    pipeline.build()
    while True:
        image, label = pipeline.run()
        yield torch.from_numpy(image.as_array()), torch.from_numpy(label.as_array()).flatten().long()


def train(way: str, folder: Path, steps: int) -> float:
    """Mean seconds of a step, after warm-up."""
    import torch
    from torch import nn

    paint(folder)
    sources = {"DALI, 2 threads": dali_batches, "webdataset, one shard": shard_batches}
    batches = sources[way](folder) if way in sources else torch_batches(way, folder)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    began = 0.0
    for step in range(steps):
        if step == WARM:
            began = time.perf_counter()
        x, y = next(batches)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - began) / (steps - WARM)


def timed(way: str, folder: Path) -> tuple[float | None, str]:
    """Seconds of a step in a process of its own; None, and why, where that is not to be had."""
    try:
        importlib.import_module(WAYS[way][0])
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".partition(". ")[0]
    command = [sys.executable, __file__, "--way", way, "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1]
    return float(done.stdout.splitlines()[-1]), ""


def promises(folder: Path) -> dict[str, str]:
    """What ``bdoc run --calibrate`` says of the first way, by remedy."""
    with tempfile.TemporaryDirectory() as place:
        training = [__file__, "--way", "Pillow", "--data", str(folder), "--steps", str(2 * STEPS)]
        report = diagnose(Path(place) / "profile.json", training, "--calibrate", limit_s=LIMIT_S)
    found = {}
    for one in report["remedies"]:
        speedup = one["predicted_speedup"]
        sure = speedup["likely"] is not None
        found[one["id"]] = (
            f"×{speedup['likely']:.2f} ({speedup['basis']})" if sure else f"at most ×{speedup['high']:.1f}"
        )
        if one["id"] == "decoder-swap":
            found[one["id"]] += f": {one['title'].rpartition(': ')[2]}"
    return found


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bdoc-photos")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(train(given.way, given.data, given.steps))
        return
    paint(given.data)
    found = in_turn(given.rounds, WAYS, lambda way: timed(way, given.data))
    promised = promises(given.data)
    print("| way | ms a step | measured | promised |\n|---|---|---|---|")
    for way, (_, remedy) in WAYS.items():
        pairs = [(one, base) for (one, _), (base, _) in zip(found[way], found["Pillow"], strict=True)]
        if any(seconds is None for seconds, _ in pairs):
            print(f"| {way} | – | not here: {found[way][0][1]} | {promised.get(remedy, '–')} |")
            continue
        gain = median(base / seconds for seconds, base in pairs)
        step = median(seconds for seconds, _ in pairs)
        print(f"| {way} | {1e3 * step:.1f} | ×{gain:.2f} | {promised.get(remedy, '–')} |")


if __name__ == "__main__":
    main()
