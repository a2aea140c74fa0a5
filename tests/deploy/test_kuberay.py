"""``deploy/kuberay/``, checked with the operator's own schemas, and by the rules of its validation beyond these."""

from __future__ import annotations

import copy
import json
import re
import shlex
from typing import Any

import jsonschema
import pytest
import yaml

from penstock.cli.main import app
from penstock.cli.run import _DRAIN_S
from tests.architecture.sources import ROOT
from tests.deploy.kuberay_schemas import schemas

FOLDER = ROOT / "deploy" / "kuberay"
DOCS = (ROOT / "docs" / "DEPLOY.md").read_text()
OBJECTS: dict[str, dict[str, Any]] = {
    f"{file.stem}/{document['kind']}/{document['metadata']['name']}": document
    for file in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
}
CLUSTER = OBJECTS["cluster/RayCluster/penstock"]
JOB = OBJECTS["application/RayJob/word-count"]
GROUPS = {group["groupName"]: group for group in CLUSTER["spec"]["workerGroupSpecs"]}
PODS = {
    "head": CLUSTER["spec"]["headGroupSpec"]["template"],
    **{name: group["template"] for name, group in GROUPS.items()},
}
SCHEMAS = schemas()


def problems(document: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMAS[document["kind"]])
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document["spec"])]


@pytest.mark.parametrize("name", [name for name, each in OBJECTS.items() if each["apiVersion"] == "ray.io/v1"])
def test_the_operator_knows_every_key_and_its_type(name: str) -> None:
    assert problems(OBJECTS[name]) == []


def test_a_misspelt_key_or_a_wrong_type_would_be_found() -> None:
    wrong = copy.deepcopy(CLUSTER)
    wrong["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["lifecycle"]["prestop"] = {}
    wrong["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0
    found = problems(wrong)
    assert len(found) == 2
    assert any("prestop" in each for each in found)
    assert any("num-cpus" in each for each in found)


def test_the_application_runs_in_the_cluster_as_the_operator_accepts_it() -> None:
    spec = JOB["spec"]
    # validation.go of the operator, v1.7.0.
    assert spec["clusterSelector"] == {"ray.io/cluster": CLUSTER["metadata"]["name"]}
    assert not {"backoffLimit", "suspend", "rayClusterSpec", "shutdownAfterJobFinishes"} & spec.keys()
    variables = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
    assert _DRAIN_S < int(variables["RAY_JOB_STOP_WAIT_TIME_S"]) < 150


def test_the_driver_runs_in_the_pod_that_has_the_probes_and_the_service() -> None:
    (resource,) = json.loads(JOB["spec"]["entrypointResources"])
    params = GROUPS["application"]["rayStartParams"]
    assert json.loads(json.loads(params["resources"])) == {resource: 1}
    assert params["num-cpus"] == "0", "or stream actors run there"
    service = OBJECTS["application/Service/word-count"]
    assert service["spec"]["selector"].items() <= PODS["application"]["metadata"]["labels"].items()
    (container,) = PODS["application"]["spec"]["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == service["spec"]["ports"][0]["targetPort"]
    assert f'"application.server": "0.0.0.0:{port["containerPort"]}"' in DOCS
    paths = {"startupProbe": [], "livenessProbe": ["/healthz"], "readinessProbe": ["/readyz"]}
    for probe, expected in paths.items():
        command = container[probe]["exec"]["command"][-1]
        assert re.findall(rf":{port['containerPort']}(/\w+)", command) == expected
        # Otherwise the operator, which waits for all pods, would never start the application.
        assert ("|| test $? = 4" in command) == bool(expected)
        assert sum(map(int, re.findall(r"-T (\d+)", command))) <= container[probe]["timeoutSeconds"]


def test_stream_actors_leave_a_pod_before_it_ends() -> None:
    (container,) = PODS["stream-actors"]["spec"]["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["penstock", "drain-node"]
    assert "drain-node" in {each.name for each in app.registered_commands}
    within = int(command[command.index("--within") + 1])
    assert _DRAIN_S <= within < PODS["stream-actors"]["spec"]["terminationGracePeriodSeconds"] - 20


@pytest.mark.parametrize("name", PODS)
def test_secrets_are_files_that_are_in_the_secrets_and_in_the_configuration_of_the_documentation(name: str) -> None:
    secrets = {each["metadata"]["name"]: each["stringData"] for each in OBJECTS.values() if each["kind"] == "Secret"}
    (container,) = PODS[name]["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = PODS[name]["spec"]["volumes"]
    named = {volume["name"]: volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert "kafka" in named
    for volume, secret in named.items():
        for file in secrets[secret]:
            assert f"{mounts[volume]}/{file}" in DOCS
    assert "env" not in container


def test_the_entry_point_is_a_command_in_the_images_working_directory() -> None:
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    change, run = JOB["spec"]["entrypoint"].split(" && ")
    assert f"WORKDIR {shlex.split(change)[1]}\n" in image
    assert shlex.split(run)[:3] == ["exec", "penstock", "run"]


def test_the_documentation_names_every_file_and_the_version_of_the_schemas() -> None:
    for file in FOLDER.iterdir():
        assert f"deploy/kuberay/{file.name}" in DOCS
    assert "KubeRay 1.7.0" in DOCS
