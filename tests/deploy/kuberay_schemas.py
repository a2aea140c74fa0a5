"""The schemas of KubeRay's objects, as its operator's custom resource definitions have them.

``kuberay-1.7.0.json.gz`` is made of ``ray-operator/config/crd/bases`` of github.com/ray-project/kuberay, tag v1.7.0,
which is licensed under the Apache License 2.0. It has the schemas of ``spec`` of version ``v1``, without
``rayClusterSpec`` of a RayJob, which repeats that of a RayCluster. Make it again, from a copy of that repository:

    python -m tests.deploy.kuberay_schemas FOLDER VERSION
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("kuberay-1.7.0.json.gz")
_KINDS = {"RayCluster": "ray.io_rayclusters.yaml", "RayJob": "ray.io_rayjobs.yaml"}
_SET_BY_THE_OPERATOR = "rayClusterSpec"


def schemas() -> dict[str, dict[str, Any]]:
    """Returns the schema of the spec of each kind, which refuses unknown keys: Kubernetes drops them silently."""
    kept: dict[str, dict[str, Any]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return {kind: _strict(schema) for kind, schema in kept.items()}


def _strict(schema: Any) -> Any:
    """Returns the schema as one of JSON Schema: without unknown keys, and with the integers or texts of Kubernetes."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict


def _made(folder: Path) -> dict[str, Any]:
    found = {}
    for kind, name in _KINDS.items():
        definition = yaml.safe_load((folder / "ray-operator" / "config" / "crd" / "bases" / name).read_text())
        (version,) = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"].pop(_SET_BY_THE_OPERATOR, None)
        found[kind] = spec
    return found


if __name__ == "__main__":
    made = json.dumps(_made(Path(sys.argv[1])), sort_keys=True, separators=(",", ":")).encode()
    FILE.with_name(f"kuberay-{sys.argv[2]}.json.gz").write_bytes(gzip.compress(made, mtime=0))
