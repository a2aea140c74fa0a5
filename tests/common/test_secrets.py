"""The entries of a configuration that are never shown."""

from __future__ import annotations

import json
import pickle

import pytest

from penstock.common.secrets import Entries, is_secret, shown_value, without_secrets


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "ssl.certificate.pem", "ssl_key",
        "ssl.keystore.key", "ssl.truststore.password", "sasl.jaas.config", "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem", "sasl.pasword.password", "application.server.ssl.key.password",
        "basic.auth.user.info", "bearer.auth.token", "schema.registry.ssl.key.password",
        "schema.registry.proxy",
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "consumer.", "producer.", "admin."])
def test_a_secret_is_one_for_every_client(key: str, prefix: str) -> None:
    assert is_secret(prefix + key)
    assert shown_value(prefix + key, "x") == "****"


@pytest.mark.parametrize(
    "key",
    [
        "aws_secret_access_key", "aws_session_token", "azure_storage_account_key", "account_key", "sas_token",
        "azure_storage_sas_key", "google_service_account_key", "azure_client_secret", "aws_sse_customer_key_base64",
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "object.store."])
def test_a_secret_of_object_storage_is_one(key: str, prefix: str) -> None:
    assert is_secret(prefix + key)


@pytest.mark.parametrize(
    "key",
    [
        "object.store.aws_access_key_id", "object.store.aws_endpoint", "object.store.google_bucket",
        "object.store.azure_storage_account_name", "state.checkpoint.uri",
        "sasl.username", "sasl.mechanism", "security.protocol", "ssl.ca.location", "ssl.key.location",
        "sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url", "application.server.tokens.location",
        "sasl.oauthbearer.assertion.private.key.file.location", "consumer.fetch.max.bytes", "application.id",
    ],
)  # fmt: skip
def test_a_value_that_is_no_secret_is_shown(key: str) -> None:
    assert not is_secret(key)
    assert shown_value(key, "x") == "'x'"


def test_that_there_is_none_is_no_secret() -> None:
    assert shown_value("sasl.password", None) == "None"


def test_entries_hide_their_secrets_and_are_a_dict_in_all_else() -> None:
    entries = Entries({"sasl.username": "alice", "sasl.password": "hidden"})
    assert repr(entries) == str(entries) == "{'sasl.username': 'alice', 'sasl.password': ****}"
    assert entries == {"sasl.username": "alice", "sasl.password": "hidden"}
    assert json.loads(json.dumps(entries)) == entries
    copy = pickle.loads(pickle.dumps(entries))
    assert (copy, type(copy)) == (entries, Entries)


def test_texts_of_others_are_shown_without_the_secrets_in_them() -> None:
    entries = {"sasl.password": "abc", "ssl.key.password": "abcdef", "sasl.username": "alice", "ssl.key.pem": ""}
    assert without_secrets("alice: abcdef, abc", entries) == "alice: ****, ****"
