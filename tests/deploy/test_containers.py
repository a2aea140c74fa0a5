"""The image and the Kubernetes files of ``deploy/``, checked without Docker and without a Kubernetes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.run import _DRAIN_S
from penstock.common.config import StreamsConfig

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
IMAGE = (REPOSITORY / "deploy" / "Dockerfile").read_text()
DOCS = (REPOSITORY / "docs" / "DEPLOY.md").read_text()
STATE = "/var/lib/penstock"


def instructions() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n", " ", IMAGE).splitlines()
    found = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in found]


def of(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def loaded(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((REPOSITORY / "deploy" / name).read_text())
    return document


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "alone", loaded("kubernetes.yaml")["spec"]["template"]["spec"]
    cluster = loaded("kuberay.yaml")["spec"]
    yield "head", cluster["headGroupSpec"]["template"]["spec"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]["spec"]


PODS = dict(pods())


def test_the_image_has_a_python_that_penstock_runs_on_in_both_stages() -> None:
    bases = {base.split()[0] for base in of("FROM")}
    (base,) = bases
    minor = int(re.fullmatch(r"python:3\.(\d+)-slim-\w+", base)[1])  # type: ignore[index]  # else the test fails
    least = int(PROJECT["requires-python"].removeprefix(">=3."))
    assert least <= minor <= 13, "as docs/DEPLOY.md has it"


def test_the_image_installs_what_the_build_makes() -> None:
    archive = PROJECT["name"].replace("-", "_")
    copied = [rest.split()[0] for rest in of("COPY") if not rest.startswith(("--from", "requirements/"))]
    assert copied == [f"dist/{archive}-*.tar.gz"]
    assert any(f"/dist/{archive}-*.tar.gz" in rest and "pip install" in rest for rest in of("RUN"))
    assert "uv build --sdist" in IMAGE
    assert "uv build --sdist" in DOCS


def test_process_1_ends_zombies_and_passes_signals_on_and_is_no_root() -> None:
    assert of("ENTRYPOINT") == ['["tini", "--"]']
    assert of("USER") == ["1000"]
    assert any(" tini" in rest for rest in of("RUN"))
    assert "command" not in PODS["alone"]["containers"][0], "it would replace tini"
    for name in PODS.keys() - {"alone"}:
        assert PODS[name]["shareProcessNamespace"] is True, "the operator replaces the entry point"


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_the_time_to_drain_whole_cpus_and_a_disk_for_the_state(name: str) -> None:
    pod = PODS[name]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > _DRAIN_S
    assert pod["securityContext"] == {"runAsUser": 1000, "fsGroup": 1000}
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"]["cpu"].isdigit()
    assert STATE in {mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    claims = {claim["metadata"]["name"] for claim in loaded("kubernetes.yaml")["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes | claims
    assert f'"state.dir": "{STATE}"' in DOCS
    assert STATE in IMAGE


def test_the_probes_ask_the_api_by_what_the_image_has() -> None:
    (container,) = PODS["alone"]["containers"]
    api = f"http://{StreamsConfig.of({'application.id': 'word-count'}).application_server}"
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        command = container[probe]["exec"]["command"]
        assert command[0] in IMAGE
        assert command[-1] == api + path
        assert int(command[command.index("-T") + 1]) <= container[probe]["timeoutSeconds"]


def test_the_ray_cluster_has_the_ray_of_the_image_and_no_cpus_on_the_head() -> None:
    cluster = loaded("kuberay.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec = cluster["spec"]
    assert "--requirement /dist/base.txt" in IMAGE
    assert f"\nray=={spec['rayVersion']} " in (REPOSITORY / "requirements" / "base.txt").read_text()
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    (workers,) = spec["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    assert len({PODS[name]["containers"][0]["image"] for name in ("head", workers["groupName"])}) == 1


def test_the_files_that_the_documentation_names_exist() -> None:
    for name in ("Dockerfile", "kubernetes.yaml", "kuberay.yaml"):
        assert f"deploy/{name}" in DOCS
        assert (REPOSITORY / "deploy" / name).is_file()
