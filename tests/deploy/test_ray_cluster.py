"""``deploy/ray-cluster.yaml``, checked as ``ray up`` checks it, without a cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def config() -> dict[str, Any]:
    """The file, with Ray's defaults filled in."""
    written = yaml.safe_load((REPOSITORY / "deploy" / "ray-cluster.yaml").read_text())
    prepared: dict[str, Any] = prepare_config(written)
    return prepared


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    validate_config(config)


def test_ray_would_refuse_a_misspelt_key(config: dict[str, Any]) -> None:
    config["availible_node_types"] = {}
    with pytest.raises(Exception, match="availible_node_types"):
        validate_config(config)


def test_the_head_runs_no_tasks_and_the_workers_come_and_go(config: dict[str, Any]) -> None:
    types = config["available_node_types"]
    assert types[config["head_node_type"]]["resources"] == {"CPU": 0}
    worker = types["worker"]
    assert 0 <= worker["min_workers"] < worker["max_workers"] <= config["max_workers"]


def test_every_node_names_the_image_that_the_documentation_finds(config: dict[str, Any]) -> None:
    images = {node["node_config"]["ImageId"] for node in config["available_node_types"].values()}
    (image,) = images
    steps = (REPOSITORY / "docs" / "DEPLOY.md").read_text()
    assert f's/{image}/$image/" deploy/ray-cluster.yaml > cluster.yaml' in steps
    assert f"/server/{image.removeprefix('ami-of-ubuntu-').replace('-', '.')}/stable/current/amd64/" in steps
    assert f"--region {config['provider']['region']} " in steps


def test_every_node_has_room_for_what_it_installs(config: dict[str, Any]) -> None:
    for node in config["available_node_types"].values():
        (disk,) = node["node_config"]["BlockDeviceMappings"]
        assert disk["Ebs"]["VolumeSize"] >= 16


def test_every_node_installs_penstock_from_what_was_built(config: dict[str, Any]) -> None:
    (built,) = (there for there, here in config["file_mounts"].items() if here == "./dist")
    for node in ("head", "worker"):
        assert any("penstock" in command and built in command for command in config[f"{node}_setup_commands"])


def test_every_node_has_the_token_and_asks_for_it(config: dict[str, Any]) -> None:
    home = f"/home/{config['auth']['ssh_user']}"
    assert config["file_mounts"][f"{home}/.ray/auth_token"] == "~/.ray/auth_token"
    for node in ("head", "worker"):
        assert "RAY_AUTH_MODE=token" in config[f"{node}_start_ray_commands"][-1]


def test_actors_are_not_niced_and_the_commands_start_ray(config: dict[str, Any]) -> None:
    for node in ("head", "worker"):
        start = config[f"{node}_start_ray_commands"][-1]
        assert "RAY_worker_niceness=0 ray start" in start
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in config["head_start_ray_commands"][-1]
