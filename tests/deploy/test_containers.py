"""The image and the Kubernetes files of ``deploy/``, checked without Docker and without a Kubernetes."""

from __future__ import annotations

import json
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
    cluster = loaded("kuberay/cluster.yaml")["spec"]
    yield "head", cluster["headGroupSpec"]["template"]["spec"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]["spec"]


PODS = dict(pods())


def test_the_image_has_a_python_that_penstock_runs_on_in_both_stages() -> None:
    (base,) = {base.split()[0] for base in of("FROM")}
    assert re.fullmatch(r"python:\$\{PYTHON\}-slim-[a-z]+", base)
    (default,) = of("ARG")
    assert f"Programming Language :: Python :: {default.removeprefix('PYTHON=')}" in PROJECT["classifiers"]
    for version in re.findall(r"PYTHON=(3\.\d+)", DOCS + IMAGE):
        assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_the_image_installs_the_wheel_that_the_build_makes_and_no_slow_one() -> None:
    name = PROJECT["name"]
    copied = [rest.split()[:-1] for rest in of("COPY") if not rest.startswith("--from")]
    assert copied == [["requirements/base.txt", f"dist/{name.replace('-', '_')}-*.whl"]]
    (install,) = [rest for rest in of("RUN") if "pip install" in rest]
    assert f"--no-index --no-deps --find-links /dist {name}" in install
    assert '-c "import penstock.kafka.librdkafka"' in install
    assert "`make wheel`" in IMAGE
    assert "make wheel" in DOCS


def test_the_image_keeps_the_rules_of_linters() -> None:
    """The rules of hadolint that apply: versions of bases, no caches, no root, forms of commands, absolute folders."""
    words = [word for word, _ in instructions()]
    assert set(words) <= {"ARG", "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert not re.search(r":latest\b", IMAGE)
    assert "://" not in IMAGE
    for run in of("RUN"):
        assert not re.search(r"\b(sudo|cd|curl|apt)\s", run)
        if "apt-get" in run:
            assert "apt-get update && apt-get install --yes --no-install-recommends" in run
            assert run.endswith("rm -rf /var/lib/apt/lists/*")
        for pip in re.findall(r"pip install[^&]*", run):
            assert "--no-cache-dir" in pip
    last = max(at for at, word in enumerate(words) if word == "FROM")
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN") > last
    assert all(folder.startswith("/") for folder in of("WORKDIR"))
    assert all(isinstance(json.loads(form), list) for form in of("ENTRYPOINT") + of("CMD"))
    assert words.count("ENTRYPOINT") == words.count("CMD") == 1


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
    assert pod["securityContext"] == {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1000}
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
    cluster = loaded("kuberay/cluster.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec = cluster["spec"]
    assert "--requirement /dist/base.txt" in IMAGE
    assert f"\nray=={spec['rayVersion']} " in (REPOSITORY / "requirements" / "base.txt").read_text()
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    for workers in spec["workerGroupSpecs"]:
        assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    assert len({PODS[name]["containers"][0]["image"] for name in PODS.keys() - {"alone"}}) == 1


def test_the_files_that_the_documentation_names_exist() -> None:
    for name in ("Dockerfile", "kubernetes.yaml", "kuberay/cluster.yaml"):
        assert f"deploy/{name}" in DOCS
        assert (REPOSITORY / "deploy" / name).is_file()
