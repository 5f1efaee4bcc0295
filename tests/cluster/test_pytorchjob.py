"""The manifest of docs/clusters.md is valid by (what was kept of) the schemas of who reads it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.cluster.pytorchjob import MANIFEST
from tests.house.source import ROOT

SCHEMA = yaml.safe_load(Path(__file__).with_name("pytorchjob.schema.yaml").read_text(encoding="utf-8"))
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))


def require_valid(document: dict[str, Any]) -> None:
    Draft202012Validator({**SCHEMA["$defs"][document["kind"]], "$defs": SCHEMA["$defs"]}).validate(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one["kind"]))
def test_a_document_is_valid_by_its_schema(document: dict[str, Any]) -> None:
    require_valid(document)


def test_a_pod_mounts_only_volumes_that_it_has() -> None:
    job, merge = DOCUMENTS
    replicas = job["spec"]["pytorchReplicaSpecs"].values()
    for pod in [*(one["template"]["spec"] for one in replicas), merge["spec"]["template"]["spec"]]:
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_page_shows_the_manifest() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    assert f"<!-- script: {MANIFEST.relative_to(ROOT)} -->" in page
