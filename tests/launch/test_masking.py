"""A command line is written down without its secrets, and with everything else."""

import shlex
import time

import pytest

from bottleneck_doctor.launch.masking import mask

SECRET = "hunter2"


NAMES = """
    wandb_key openai_key encryption_key ssh_key_pass api_key neptune_pat hf_token db_password pwd
    smtp_pass aws_secret_access_key access_key_id client_secret jwt auth comet_api_key connection_string
    session_cookie sentry_dsn slack_webhook sas signature azure_account_key gcp_credentials license_key
    auth_header
""".split()
STYLES = {
    "argparse": "train.py --{name} hunter2 --lr 0.1",
    "argparse =": "train.py --{name}=hunter2",
    "a value with a dash": "train.py --{name} -hunter2",
    "dashed": "train.py --{dashed} hunter2 data/train",
    "dashed, one dash": "train.py -{dashed} hunter2",
    "Hydra": "train.py {name}=hunter2 optim=adam",
    "Hydra adds": "train.py ++logger.{name}=hunter2",
    "fire": "train.py train --config.{name} hunter2",
    "camel": "train.py --{camel}=hunter2",
    "environment": "env {upper}=hunter2 python train.py",
    "shell": "sh -c 'export {upper}=hunter2; python train.py --{name} hunter2'",
    "JSON": """train.py --config '{{"{name}": "hunter2", "lr": 0.1}}'""",
    "YAML": "train.py --set '{camel}: hunter2'",
    "query": "train.py 'https://host/data?part=3&{name}=hunter2'",
}


def spelled(style: str, name: str) -> str:
    """A command line with a secret of that name."""
    head, *rest = name.split("_")
    camel = head + "".join(one.capitalize() for one in rest)
    forms = {"name": name, "dashed": name.replace("_", "-"), "camel": camel, "upper": name.upper()}
    return STYLES[style].format(**forms)


@pytest.mark.parametrize("style", STYLES)
def test_every_spelling_of_a_secrets_name_is_masked(style: str) -> None:
    for line in (spelled(style, name) for name in NAMES):
        shown = mask(shlex.split(line))
        assert SECRET not in " ".join(shown), line
        assert len(shown) == len(shlex.split(line)), line


@pytest.mark.parametrize(
    "line",
    [
        "train.py --aws-access-key-id hunter2",
        "'--password=two words hunter2'",
        "train.py s3://user:hunter2@host/bucket",
        "train.py redis://:hunter2@host",
        "curl -H 'Authorization: Bearer hunter2' host",
        """train.py --config '{"auth": {"password": "hunter2"}, "lr": 0.1}'""",
        "azcopy 'DefaultEndpointsProtocol=https;AccountName=me;AccountKey=hunter2;EndpointSuffix=x'",
        "train.py 'https://x.blob.core.windows.net/c?sv=2024&sp=r&sig=hunter2'",
        "train.py 'https://b.s3.amazonaws.com/k?X-Amz-Date=2026&X-Amz-Signature=hunter2'",
        "train.py --notify https://hooks.slack.com/services/T01/B02/hunter2",
        "train.py --notify https://discord.com/api/webhooks/123/hunter2",
        "train.py --data https://ann:hunter2@host/x.tar",
        "git clone https://hunter2hunter2hunter2@github.com/me/repo",
        "curl -u ann:hunter2 https://host",
        "train.py --api_key hunter2hunter2 hunter2hunter3",
        "sh -c 'python train.py --fp16 --api_key hunter2'",
        "docker run --env=HF_TOKEN=hunter2 image",
        "train.py 'https://host/cb#access_token=hunter2'",
        "curl --header='Authorization: token hunter2' host",
        "curl -H Authorization: Bearer hunter2",
        "git clone https://hunter2x@host/me/repo",
        "train.py --conn_str hunter2",
        """train.py --config '{"api_keys": ["hunter2", "hunter2"]}'""",
        "train.py '-----BEGIN RSA PRIVATE KEY-----\nhunter2'",
    ],
)
def test_what_looks_like_a_secret_is_masked(line: str) -> None:
    assert SECRET not in " ".join(mask(shlex.split(line)))


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "a1B2" * 8,
        "wandb_v1_" + "a1B2" * 8,
        "dapi" + "a1b2" * 8,
        "xai-" + "a1B2" * 8,
        "sk-" + "a1B2" * 8,
        "ghp_" + "a1B2" * 9,
        "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)
def test_a_token_is_known_by_its_looks_under_any_name(token: str) -> None:
    assert mask(["train.py", token, f"--login={token}"]) == ["train.py", "***", "--login=***"]


HEX40, B64 = "3f786850e387550fdab836ed7e6dc881de23001b", "q7Zt4KxP0vRj2WmB9sYcA1nLd8fGhE5u"
LEFT_BEFORE = [
    "--pw hunter2",
    "--mysql_pw=hunter2",
    "--login ann:hunter2",
    "--login=ann:hunter2",
    f"--wandb {HEX40}",
    f"--wandb-login {HEX40}",
    f"wandb login {HEX40}",
    f"--tracker={B64}",
    f"logger.tracker={B64}",
    f"sh -c 'train.py --tracker {B64}'",
    "--token=123456789",
    "--password 1234",
    "--otp 12345678",
    "--pin 1234",
    "-p 'hunter2!x'",
]


@pytest.mark.parametrize("line", LEFT_BEFORE)
def test_secrets_are_known_by_short_names_too_and_by_their_length(line: str) -> None:
    shown = " ".join(mask(shlex.split(f"train.py {line} --lr 0.1")))
    assert "***" in shown
    assert shown.endswith("--lr 0.1")
    assert not any(secret in shown for secret in (SECRET, HEX40, B64, "1234"))


ORDINARY = (
    """
--key-frames 3|--tokens 4096|--signal 9|--max-token-length 10|--keyboard us|--author me
--tokenizer gpt2|--passes 3|--compass north|--monkey 1|--image-key jpg|--text_key=caption
--label-key cls|--sort-key loss|--group_key user|--num-tokens 512|--pad_token [PAD]|--eos-token </s>
--token-drop 0.1|--pattern *.jpg|--patience 3|--path data|--patch-size 16|--pass-through
--bypass true|--sigma 0.1|--sigmoid|--significance 0.05|--design a|--cookiecutter x|--sasrec
--pwdist 2|--authors us|--authoring-tool vim|--keypoints 17|--keep 3|--keyword yes|--hotkey-demo
--tokenize yes|--tokens-per-batch 4096|--tokenizer_path=/data/tok|--n_tokens=3|--min-tokens 1
--class-token 1|--register_tokens=4|--monitor-key val_loss|--metric_key=f1|--cache-key run1
--partition-key day|--primary_key id|--index-key row|--join-key id|--dict_key x|--column-key y
--lr 0.1|--seed 17|--epochs 90|--batch-size=256|--workers 4|--amp|--model resnet50
--passing-rate 0.3|--bypass-layers 2|--key 3|--token 5|--dataset.image_key=png|model.num_tokens=64
data.text_key=body|--prompt-token 20|--use-auth-token true|--query-key q|--img_key=image|--state_key model
--stop-token 0|--first-token 1|--patchify|--patent-year 1999|--sig-digits 3
--num_workers 8|--pin_memory|--pin-memory true|--pin data/train|--pin 1|--lr 1e-4
--checkpoint runs/a/best.pt|--hidden-dims 1,2,3|--seed 123456789|--tokens 300000000
--train-tokens=15000000000|--use-auth-token true data/train|--run-id a1b2c3d4
--run_id 0123456789abcdef0123456789abcdef|--commit 3f786850e387550fdab836ed7e6dc881de23001b
--model-revision=3f786850e387550fdab836ed7e6dc881de23001b|--sha256 3f786850e387550fdab836ed7e6dc881de23001b
image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
--trial 550e8400-e29b-41d4-a716-446655440000|--model vit_base_patch16_clip_224_openai_ft_in12k_in1k
--model EleutherAI/pythia-12b-deduped-v0|--head DistilBertForSequenceClassification|--login ann
--wandb my-project|--name ResNet50_CIFAR10_AdamW_lr1e-4_bs256_Run3
--backbone MobileNetV3SmallWithSqueezeExcite2
--data /scratch/Users/AnnB/ImageNet2012/TrainShards64/Run3Final|--out runs/ResNet50/Exp3/CheckpointFinal12
--note 12345678901234567890123456789012345|--config configs/dinov2/vitl14_reg4_518_lvd142m.yaml
--url https://host/datasets/3f786850e387550fdab836ed7e6dc881de23001b/train.tar|-p 8080|-p resnet50d
-p runs/a1!|--betas 0.9 0.999|--weight-decay 1e-2|--mixed-precision bf16|--gradient-accumulation-steps 16
--max-steps 1000000|--warmup-ratio 0.03|--lr-scheduler cosine|--fsdp 'full_shard auto_wrap'
--optim adamw_torch_fused|--dtype bfloat16|--local-rank 0|--world-size 8|--master-port 29500
--rdzv-endpoint host:29400|--save-every 1000|--crop 224|--mean 0.485,0.456,0.406|--classes 1000
--dropout 0.1|--compile|--no-amp|--prefetch-factor=4|--ema-decay 0.9999|trainer.devices=4
+data.augment=randaug-m9|model.layers=[3,4,6,3]|~callbacks.early|optim.betas=[0.9,0.95]
""".strip()
    .replace("\n", "|")
    .split("|")
)


def test_everything_else_stays() -> None:
    lines = [
        "python -u train.py --lr 0.1 --epochs 3 data/train",
        "train.py token password key",
        "train.py --use-auth-token --lr 0.1",
        "-m pkg.auth.train --sort-by key",
        "train.py --data=/mnt/keys/imagenet http://host:8080/api",
        "torchrun --nproc_per_node=2 --rdzv-endpoint host:29400 train.py",
        *(f"train.py {one}" for one in ORDINARY),
    ]
    assert [line for line in lines if mask(shlex.split(line)) != shlex.split(line)] == []


@pytest.mark.parametrize("piece", ["x", "key:", "eyJ-", "a://", "a="])
def test_a_long_word_is_read_once(piece: str) -> None:
    """Ten times the length takes about ten times the CPU time; a search from each letter takes a hundred."""
    short, long = (
        min(_cpu_s(piece * (letters // len(piece))) for _ in range(2)) for letters in (10_000, 100_000)
    )
    assert long < 40 * short + 0.05


def _cpu_s(word: str) -> float:
    began = time.process_time()
    mask([word])
    return time.process_time() - began
