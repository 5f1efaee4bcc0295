"""Weights & Biases, offline: the run's file read back, record by record."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.export import sent

pytest.importorskip("wandb", reason="needs the extra `wandb`")
pytestmark = pytest.mark.slow  # it starts a service of its own

BLOCK = 32768  # the file is a LevelDB log: blocks of pieces, each behind a checksum, a length and a kind
HEAD = struct.Struct("<IHB")
FULL, LAST = 1, 4


def pieces(data: bytes) -> Iterator[bytes]:
    """The records of the file."""
    place, record = 7, b""  # behind the file's own header
    while place + HEAD.size <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEAD.size:
            place += left
            continue
        _, length, kind = HEAD.unpack_from(data, place)
        record += data[place + HEAD.size : place + HEAD.size + length]
        place += HEAD.size + length
        if kind in (FULL, LAST):
            yield record
            record = b""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the file of an offline run holds; the training had a run of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    place = tmp_path_factory.mktemp("wandb")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_RUN_ID", "training1")
        sent.export(place, "wandb:team/cats")
    (file,) = place.glob("wandb/offline-run-*/run-*.wandb")
    return [Record.FromString(one) for one in pieces(file.read_bytes())]


def of_kind(records: list[Any], kind: str) -> list[Any]:
    """The records that hold this."""
    return [one for one in records if one.WhichOneof("record_type") == kind]


def test_the_run_holds_each_number_of_the_report(records: list[Any]) -> None:
    items = [item for one in of_kind(records, "history") for item in one.history.item]
    found = {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
    ours = {name: value for name, value in found.items() if not name.startswith("_")}
    assert ours == sent.named("bdoc/")


def test_the_verdict_is_its_config_and_the_trainings_run_is_named_not_touched(records: list[Any]) -> None:
    run = of_kind(records, "run")[0].run
    config = {item.key: json.loads(item.value_json) for item in run.config.update if item.key}
    assert {name: config[name] for name in sent.verdict()} == sent.verdict()
    assert config["training_run"] == "training1" != run.run_id
    assert (run.entity, run.project, run.job_type) == ("team", "cats", "bdoc")


def test_nothing_is_sent_of_the_machine_and_its_environment(records: list[Any]) -> None:
    kinds = {one.WhichOneof("record_type") for one in records}
    assert not kinds & {"stats", "environment", "output", "output_raw"}
    files = [item.path for one in of_kind(records, "files") for item in one.files.files]
    assert not [path for path in files if path in ("requirements.txt", "wandb-metadata.json")]
