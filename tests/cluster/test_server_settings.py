"""The settings of the HTTP server, from configuration, files and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.client.server_settings import Scope, ServerSettings, Token, token_of
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError

READ, OPERATE = "a" * 16, "b" * 32
TLS = {
    "application.server.ssl.certificate.location": "/certificate.pem",
    "application.server.ssl.key.location": "/key.pem",
}


def settings(entries: dict[str, Any] | None = None, **environment: str) -> ServerSettings:
    return ServerSettings.of(StreamsConfig.of({"application.id": "app", **(entries or {})}), environment)


def refusal(entries: dict[str, Any] | None = None, **environment: str) -> str:
    with pytest.raises(ConfigError) as refused:
        settings(entries, **environment)
    return str(refused.value)


def known(found: ServerSettings) -> dict[str, Scope | None]:
    tokens = {text: token_of(found.tokens, text.encode()) for text in (READ, OPERATE, "c" * 16)}
    return {text: None if token is None else token.scope for text, token in tokens.items()}


def test_by_default_it_listens_on_this_machine_alone_and_needs_neither_tls_nor_tokens() -> None:
    assert settings() == ServerSettings("127.0.0.1", 8080)


def test_tokens_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who may do what\n\nread {READ}  # the dashboard\n  operate\t{OPERATE}\n")
    found = settings({"application.server.tokens.location": file}, PENSTOCK_API_TOKENS=f"read {'c' * 16}")
    assert known(found) == {READ: Scope.READ, OPERATE: Scope.OPERATE, "c" * 16: None}


@pytest.mark.parametrize("text", [f"read {READ},operate {OPERATE}", f"read {READ}\noperate {OPERATE}\n"])
def test_without_one_they_come_from_the_environment(text: str) -> None:
    assert known(settings(PENSTOCK_API_TOKENS=text)) == {READ: Scope.READ, OPERATE: Scope.OPERATE, "c" * 16: None}


@pytest.mark.parametrize("text", ["", "\n# none\n"])
def test_a_file_without_a_token_is_refused_for_nobody_wants_one_that_lets_everybody_in(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(text)
    assert "has no token" in refusal({"application.server.tokens.location": tmp_path / "tokens"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    message = refusal({"application.server.tokens.location": tmp_path / "none"})
    assert f"'application.server.tokens.location': cannot read {tmp_path}/none" in message


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (READ, "not a scope (read or operate), a token"),
        (f"write {READ}", "not a scope"),
        (f"read {READ} x y", "not a scope"),
        (f"read {READ} \x1b[2J", "not a scope"),
        ("read 123456789012345", "at least 16 characters"),
        (f"read {READ}ä", "letters, digits"),
        (f"read {OPERATE}", "the same token is on a line above"),
    ],
)
def test_a_line_that_is_wrong_is_named_by_its_number_and_its_token_is_not_shown(line: str, why: str) -> None:
    message = refusal(PENSTOCK_API_TOKENS=f"operate {OPERATE}\n{line}")
    assert message.startswith("the variable PENSTOCK_API_TOKENS, line 2: ")
    assert why in message
    assert READ not in message
    assert OPERATE not in message
    assert "12345678901234" not in message.replace("0123456789abcdef", "")


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.1.2.3", "[2001:db8::1]", "[::ffff:127.0.0.1]"])
def test_an_address_that_others_can_reach_needs_tls_and_tokens_before_anything_is_started(host: str) -> None:
    server = {"application.server": f"{host}:8080"}
    assert "Missing: TLS" in refusal(server)
    assert "and tokens (" in refusal(server)
    assert "Missing: tokens" in refusal(server | TLS)
    assert "and tokens (" not in refusal(server, PENSTOCK_API_TOKENS=f"read {READ}")
    assert settings(server | TLS, PENSTOCK_API_TOKENS=f"read {READ}").port == 8080


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost", "kafka.example"])
def test_this_machine_needs_neither_and_a_name_is_looked_at_where_the_server_listens(host: str) -> None:
    assert settings({"application.server": f"{host}:8080"}).host == host.strip("[]")


@pytest.mark.parametrize("one", TLS)
def test_a_certificate_needs_its_key_and_a_key_its_certificate(one: str) -> None:
    (other,) = TLS.keys() - {one}
    assert refusal({one: TLS[one]}) == f"configuration key {one!r}: TLS needs {other!r} as well"


def test_of_two_scopes_the_wider_counts_and_operate_is_read_as_well() -> None:
    tokens = (Token.of(Scope.READ, READ), Token.of(Scope.OPERATE, READ), Token.of(Scope.READ, READ))
    found = token_of(tokens, READ.encode())
    assert found is not None
    assert found.scope is Scope.OPERATE
    assert Scope.OPERATE.allows(Scope.READ)
    assert not Scope.READ.allows(Scope.OPERATE)


def test_every_token_is_compared_and_in_a_time_that_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("penstock.cluster.client.server_settings.hmac.compare_digest", compare)
    tokens = [Token.of(Scope.READ, letter * 16) for letter in "abc"]
    for presented in (b"a" * 16, b"c" * 16, b"unknown"):
        compared.clear()
        token_of(tokens, presented)
        assert compared == [token.digest for token in tokens]


def test_a_token_may_have_a_name_that_the_log_calls_it_by() -> None:
    named, other = settings(PENSTOCK_API_TOKENS=f"operate {OPERATE} platform-team\nread {READ}").tokens
    assert named.name == "platform-team"
    assert other.name.startswith("sha256:")
    assert READ not in other.name
