"""A whole application: Kafka behind TLS and a password, its API behind TLS and tokens, and no secret is shown."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app as command_line
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from tests.cluster.asking import patient_client
from tests.cluster.conftest import WordCount
from tests.cluster.settled import until_settled
from tests.own_ray import own_or_running_ray
from tests.security.broker import PASSWORD, SecuredBroker
from tests.waiting import eventually

READ, OPERATE = "read-token-2718281828", "operate-token-2718281828"


@pytest.fixture
def ray_cluster() -> Iterator[None]:
    """A Ray of this process; the one that other tests have started, if they have."""
    yield from own_or_running_ray()


@pytest.fixture
def word_count(
    secured: SecuredBroker, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> Iterator[WordCount]:
    """A word count whose records are sent and read where the broker demands nothing."""
    it = WordCount(secured.plain.address, topic_name("wc"), tmp_path / "state")
    yield it
    end_actors(it.application_id, find_coordinator(it.application_id))


def entries(secured: SecuredBroker, tmp_path: Path, **others: str) -> dict[str, str]:
    """Returns the settings by which Kafka lets the application in, and the application others; dots are underscores."""
    own = secured.authority.identity("api")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {READ}\noperate {OPERATE}\n")
    return {
        key.replace(".", "_"): value for key, value in secured.tls.config("-").items() if key != "application.id"
    } | {
        "application_server": "0.0.0.0:0",
        "application_server_ssl_certificate_location": str(own.certificate),
        "application_server_ssl_key_location": str(own.key),
        "application_server_tokens_location": str(tokens),
        **others,
    }


def logs() -> str:
    """All that Ray and the actors have written."""
    from ray._private.worker import _global_node  # where the logs lie has no public name

    assert _global_node is not None
    return "".join(file.read_text(errors="replace") for file in Path(_global_node.get_logs_dir_path()).rglob("*.*"))


@pytest.mark.submission
def test_a_secured_application_runs_and_shows_no_secret(
    word_count: WordCount, secured: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    it = word_count
    it.send(["the quick brown fox", "the end"] * 5)
    app = it.app(**entries(secured, tmp_path))
    shown = [repr(app.config), str(app.config.entries()), app.describe()]
    app.start()
    until_settled(app)
    eventually(it.complete, "all counts written")
    eventually(lambda: it.committed() == 10, "committed as a member of the group")

    status = app.status()
    assert status.http_address is not None
    url = httpx.URL(status.http_address)
    assert (url.scheme, url.host == "0.0.0.0") == ("https", False)
    trust = ssl.create_default_context(cafile=secured.authority.certificate)
    address = f"https://127.0.0.1:{url.port}"
    with patient_client(address, verify=trust, headers={"Authorization": f"Bearer {READ}"}) as client:
        paths = [
            f"/v1/applications/{it.application_id}{end}"
            for end in ("", "/stores", "/stores/counts/keys/the", "/stores/counts/range")
        ]
        answers = [client.get(path) for path in (*paths, "/metrics", "/readyz", "/openapi.json")]
        assert {answer.url.path: answer.text for answer in answers if answer.status_code != 200} == {}
        assert client.get(paths[2]).json()["value"] == it.sent["the"]
        shown += [answer.text for answer in answers]
        unknown = client.get(paths[2], headers={"Authorization": "Bearer unknown-token-2718281828"})
        assert unknown.status_code == 401
        shown.append(unknown.text)
    for command in (["status", it.application_id], ["status", it.application_id, "--json"], ["status"]):
        result = CliRunner(env={"COLUMNS": "200"}).invoke(command_line, command)
        assert result.exit_code == 0, result.output
        shown.append(result.output)
    shown.append(str(status))
    assert app.close()

    written = logs()
    assert it.application_id in written, "these are the logs"
    shown += [written, *capfd.readouterr()]
    for secret in (PASSWORD, READ, OPERATE):
        assert [text for text in shown if secret in text] == []
