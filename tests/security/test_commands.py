"""Commands that ask Kafka themselves are let in by the settings of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.common.errors import ConfigError, KafkaRefusedError
from tests.security.broker import PASSWORD, Demands, SecuredBroker


def penstock(*arguments: str, text: str | None = None, **environment: str) -> str:
    """Runs a command; returns its standard output, and raises what it raised."""
    result = CliRunner(env={"COLUMNS": "200", **environment}).invoke(app, arguments, input=text)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def written(folder: Path, demands: Demands, **entries: str) -> str:
    """Writes a properties file with the settings that the listener demands, changed by ``entries``."""
    given = demands.entries | {key.replace("__", "."): value for key, value in entries.items()}
    file = folder / "client.properties"
    file.write_text("# how to come in\n\n" + "".join(f"{key} = {value}\n" for key, value in given.items()))
    return str(file)


def test_topics_are_created_filled_and_read_with_a_file_of_client_settings(
    tmp_path: Path, secured: SecuredBroker, topic_name: Callable[[str], str]
) -> None:
    name, demands = topic_name("secured"), secured.tls
    environment = {
        "PENSTOCK_BOOTSTRAP_SERVERS": demands.address,
        "PENSTOCK_COMMAND_CONFIG": written(tmp_path, demands),
    }
    assert penstock("topic", "create", name, **environment) == f"Topic {name} is created\n"
    assert penstock("topic", "send", name, text="one\ntwo\n", **environment) == f"2 records sent to {name}\n"
    assert penstock("topic", "read", name, **environment) == "one\ntwo\n"
    assert name in penstock("topic", "list", **environment)
    assert "first offset" in penstock("topic", "describe", name, **environment)
    assert penstock("topic", "delete", name, "--yes", **environment) == f"Topic {name} is deleted\n"


@pytest.mark.parametrize("command", [["create", "t"], ["list"]])
def test_wrong_credentials_in_it_are_reported_and_not_shown(
    command: list[str], tmp_path: Path, secured: SecuredBroker
) -> None:
    file = written(tmp_path, secured.scram, sasl__password="wrong-secret")
    with pytest.raises(KafkaRefusedError, match=r"check sasl\.mechanism, sasl\.username and sasl\.password") as refused:
        penstock("topic", *command, "-b", secured.scram.address, "--command-config", file)
    assert "wrong-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"sasl.password {PASSWORD}", "line 1 is not KEY=VALUE"),
        (f"consumer.sasl.password={PASSWORD}", "line 1: 'consumer.sasl.password' is not of"),
        ("bootstrap.servers=here:1", "--bootstrap-servers"),
        (f'sasl.jaas.config=ScramLoginModule required password="{PASSWORD}";', "'sasl.username' and 'sasl.password'"),
        (f"sasl.pasword={PASSWORD}", "did you mean 'sasl.password'?"),
    ],
)
def test_a_file_that_is_wrong_is_refused_before_anything_is_asked_and_no_secret_is_shown(
    line: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line)
    with pytest.raises(ConfigError) as refused:
        penstock("topic", "list", "-b", "127.0.0.1:1", "--command-config", str(file))
    assert message in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}/none"):
        penstock("topic", "list", "-b", "127.0.0.1:1", "--command-config", str(tmp_path / "none"))
