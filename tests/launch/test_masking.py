"""A command line is written down without its secrets, and with everything else."""

from __future__ import annotations

import shlex
import time

import pytest

from bottleneck_doctor.launch.masking import mask

SECRET = "hunter2"


@pytest.mark.parametrize(
    "line",
    [
        "train.py --api-key hunter2 --lr 0.1",
        "train.py --api_key=hunter2",
        "train.py --hf-token hunter2",
        "train.py --wandb.key hunter2",
        "train.py --password=hunter2",
        "train.py --secret hunter2",
        "train.py --aws-access-key-id hunter2",
        "train.py +logger.api_key=hunter2",
        "env WANDB_API_KEY=hunter2 python train.py",
        "'--password=two words hunter2'",
        "train.py s3://user:hunter2@host/bucket",
        "train.py redis://:hunter2@host",
        "train.py 'https://host/data?token=hunter2&part=3'",
        "sh -c 'cd data && HF_TOKEN=hunter2 python train.py'",
        "sh -c 'python train.py --auth-token hunter2 --lr 0.1'",
        "curl -H 'Authorization: Bearer hunter2' host",
        """train.py --config '{"auth": {"password": "hunter2"}, "lr": 0.1}'""",
    ],
)
def test_what_is_named_like_a_secret_is_masked(line: str) -> None:
    shown = mask(shlex.split(line))
    assert not any(SECRET in word for word in shown)
    assert any("***" in word for word in shown)
    assert len(shown) == len(shlex.split(line))


@pytest.mark.parametrize(
    "token",
    ["hf_" + "a1B2" * 8, "sk-" + "a1B2" * 8, "ghp_" + "a1B2" * 9, "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl"],
)
def test_a_token_is_known_by_its_looks_under_any_name(token: str) -> None:
    assert mask(["train.py", token, f"--login={token}"]) == ["train.py", "***", "--login=***"]


@pytest.mark.parametrize(
    "line",
    [
        "python -u train.py --lr 0.1 --epochs 3 data/train",
        "train.py --tokenizer bert-base --tokenizer_name=gpt2 --tokenize yes",
        "train.py --max-tokens 512 --num_tokens=5 --tokens-per-batch 4096 --vocab_tokens 50257",
        "train.py --pad-token 0 --eos_token=2 --token-dim 64",
        "train.py --author me --authors us --keypoints 17 --key-frames 5",
        "train.py token password key",
        "-m pkg.auth.train --sort-by key",
        "train.py --data=/mnt/keys/imagenet http://host:8080/api",
        "torchrun --nproc_per_node=2 --rdzv-endpoint host:29400 train.py",
    ],
)
def test_everything_else_stays(line: str) -> None:
    assert mask(shlex.split(line)) == shlex.split(line)


def test_the_option_after_a_bare_flag_stays() -> None:
    assert mask(["--use-auth-token", "--lr", "0.1"]) == ["--use-auth-token", "--lr", "0.1"]


@pytest.mark.parametrize(
    "piece", ["x", "a ", "key:", "x.", " ", '"', "a'", "eyJ-", "a://", "://a:", "-", "a="]
)
def test_a_word_of_a_megabyte_is_read_once(piece: str) -> None:
    """A letter takes as long as in a word of a tenth; a search from each letter would take tenfold."""
    short, long = piece * (100_000 // len(piece)), piece * (1_000_000 // len(piece))
    assert _seconds(long) < 60 * _seconds(short) + 0.1


def _seconds(word: str) -> float:
    began = time.perf_counter()
    mask([word])
    return time.perf_counter() - began
