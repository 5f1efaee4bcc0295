"""Only what could matter is timed, and only plain local files are touched."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from bottleneck_doctor.calibrate.subjects import (
    Subject,
    choose,
    files_of,
    moving_request,
    pictures_request,
    reads_request,
)
from bottleneck_doctor.model.fetches import Payload
from bottleneck_doctor.model.profile import Profile
from tests.calibrate.runs import run_over


def chosen(profile: Profile) -> Subject:
    subject = choose(profile)
    assert subject is not None
    return subject


def local(_: str) -> bool:
    return False


def test_a_run_without_fetches_has_no_subject() -> None:
    assert choose(Profile(run_over([]).run, run_over([]).machine)) is None


def test_files_are_plain_local_data(tmp_path: Path) -> None:
    for name in ("a.bin", "b.py", "mounted.bin"):
        (tmp_path / name).write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe.bin")
    names = ["a.bin", "b.py", "pipe.bin", "gone.bin", "mounted.bin", "/proc/self/maps", "/dev/zero", "n\0l"]
    subject = chosen(run_over(names))
    found = files_of(subject, str(tmp_path), lambda path: path.endswith("mounted.bin"))
    assert found == [str(tmp_path / "a.bin")]


def test_one_large_file_is_read_in_pieces_and_small_ones_whole(tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(b"x" * (1 << 20))
    (tmp_path / "small.bin").write_bytes(b"x" * 1000)
    large, small = str(tmp_path / "large.bin"), str(tmp_path / "small.bin")
    pieces = reads_request(chosen(run_over([large])), [large], "/tmp")
    whole = reads_request(chosen(run_over([small], opens=32)), [small], "/tmp")
    assert pieces is not None
    assert (pieces["whole"], pieces["size"], pieces["now"]) == (False, (1 << 20) // 64, 2)
    assert whole is not None
    assert (whole["whole"], whole["chunk"]) == (True, 32_000)


def test_data_that_lie_in_memory_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    paths = [str(tmp_path / "a.bin")]
    assert reads_request(chosen(run_over(paths, stored=0)), paths, "/tmp") is None
    assert reads_request(chosen(run_over(paths)), [], "/tmp") is None


def test_pictures_are_decoded_where_a_known_decoder_took_time() -> None:
    seen = chosen(run_over(["a.png", "b.txt"], decode_s=0.01))
    assert pictures_request(seen, ["a.png", "b.txt"]) == {"paths": ["a.png"], "used": "PIL", "side": 0}
    known = Payload("1:1", 9, tensor_bytes=seen.mean("samples") * 3 * 64 * 64)
    looked = chosen(run_over(["a.png"], decode_s=0.01, payload=known))
    assert (pictures_request(looked, ["a.png"]) or {})["side"] == 64
    floats = replace(known, tensor_bytes=4 * known.tensor_bytes, element_bytes=4.0)
    looked = chosen(run_over(["a.png"], decode_s=0.01, payload=floats))
    assert (pictures_request(looked, ["a.png"]) or {})["side"] == 64
    assert pictures_request(chosen(run_over(["a.png"])), ["a.png"]) is None


def test_only_bulky_batches_of_workers_are_moved() -> None:
    many = Payload("1:1", 9, tensors=200.0, tensor_bytes=3e5)
    assert moving_request(chosen(run_over([], payload=many))) == {
        "tensors": 200.0, "tensor_bytes": 3e5, "other_bytes": 0.0, "workers": 2,
    }  # fmt: skip
    assert moving_request(chosen(run_over([], payload=many, workers=0))) is None
    assert moving_request(chosen(run_over([], payload=Payload("1:1", 9, 2.0, 3e8)))) is None
