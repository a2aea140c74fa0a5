"""One broker with listeners that each demand something else of a client, for all tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.kafka.local_broker.broker import LocalBroker, free_port
from penstock.kafka.local_broker.node_files import HOST, Listener
from tests.security.certificates import Authority, Identity
from tests.security.token_server import CLIENT_ID, CLIENT_SECRET, token_server

USER, PASSWORD = "alice", "secret-of-alice-3141592"
_JAVA = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Demands:
    """The address of a listener, and the settings by which it lets a client in."""

    address: str
    entries: dict[str, Any]

    def config(self, application_id: str = "app", **entries: Any) -> dict[str, Any]:
        """Returns a configuration that is let in, changed by ``entries``; a None removes one."""
        given = {key.replace("__", "."): value for key, value in entries.items()}
        found = {"application.id": application_id, "bootstrap.servers": self.address, **self.entries, **given}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class SecuredBroker:
    """``plain`` demands nothing, ``scram`` a password, ``tls`` that and TLS, ``mutual`` a client's certificate,
    ``oauth`` a token."""

    plain: Demands
    scram: Demands
    password: Demands
    tls: Demands
    mutual: Demands
    oauth: Demands
    authority: Authority
    client: Identity
    stranger: Identity


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A real Kafka; only its plain listener lets in clients that do not authenticate."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "certificates", "authority")
    server, client = authority.identity("broker"), authority.identity("client")
    stranger = Authority(folder / "strangers", "another-authority").identity("stranger")
    ports = [free_port()]
    while len(ports) < 6:
        ports.append(free_port(avoid=ports))
    first, *others = ports
    with ExitStack() as stack:
        tokens = stack.enter_context(token_server())
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("JDK_JAVA_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens}/keys")
            listeners = _listeners(others, server, authority, f"{tokens}/keys")
            status = stack.enter_context(LocalBroker(folder / "broker", first, listeners=listeners))
        places = {listener.name.lower(): listener for listener in listeners}
        _let_in(status.bootstrap_servers)
        at = {name: f"{HOST}:{listener.port}" for name, listener in places.items()}
        login = {"sasl.username": USER, "sasl.password": PASSWORD}
        trust = {"ssl.ca.location": str(authority.certificate)}
        own = {"ssl.certificate.location": str(client.certificate), "ssl.key.location": str(client.key)}
        scram = {"sasl.mechanism": "SCRAM-SHA-256", **login}
        yield SecuredBroker(
            plain=Demands(status.bootstrap_servers, {}),
            scram=Demands(at["scram"], {"security.protocol": "SASL_PLAINTEXT", **scram}),
            password=Demands(
                at["password"], {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **login}
            ),
            tls=Demands(at["tls"], {"security.protocol": "SASL_SSL", **scram, **trust}),
            mutual=Demands(at["mutual"], {"security.protocol": "SSL", **trust, **own}),
            oauth=Demands(at["oauth"], {"security.protocol": "SASL_PLAINTEXT", **_bearer(f"{tokens}/token")}),
            authority=authority,
            client=client,
            stranger=stranger,
        )


def _listeners(ports: list[int], server: Identity, authority: Authority, keys: str) -> list[Listener]:
    scram = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "scram-sha-256.sasl.jaas.config": f"{_JAVA}.scram.ScramLoginModule required;",
    }
    password = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{_JAVA}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    }
    oauth = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "oauthbearer.sasl.jaas.config": f"{_JAVA}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
        "oauthbearer.sasl.server.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    }
    pem = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(server.both),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.certificate),
    }  # fmt: skip
    return [
        Listener("SCRAM", ports[0], "SASL_PLAINTEXT", scram),
        Listener("PASSWORD", ports[1], "SASL_PLAINTEXT", password),
        Listener("TLS", ports[2], "SASL_SSL", scram | pem),
        Listener("MUTUAL", ports[3], "SSL", pem | {"ssl.client.auth": "required"}),
        Listener("OAUTH", ports[4], "SASL_PLAINTEXT", oauth),
    ]


def _bearer(url: str) -> dict[str, str]:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": url,
    }


def _let_in(address: str) -> None:
    """Makes the user known for SCRAM, by the listener that demands nothing."""
    known = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
    )
    client = AdminClient({"bootstrap.servers": address})
    [done] = client.alter_user_scram_credentials([known]).values()
    done.result(60)
