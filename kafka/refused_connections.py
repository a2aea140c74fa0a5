"""Finds out why brokers refuse a client: librdkafka reports the reason only to a callback, and continues to try.

A request fails only when its time is up, with "broker transport failure" whatever the cause is. The error of each
connection goes to ``error_cb``. A caller that watches these errors need not wait until the time is up.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError, StreamsError
from penstock.common.secrets import without_secrets

T = TypeVar("T")
_REFUSED = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED,
     KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.ILLEGAL_SASL_STATE}
)  # fmt: skip
_TLS_ALERT = re.compile(r"SSL routines:.*alert")
"""The broker has refused this client's certificate, or the lack of one. The error code is only "transport"."""
_NO_PROTOCOL = re.compile(r"\b(?!(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)\w+://", re.IGNORECASE)
"""A URL, as other libraries want one. librdkafka waits for a broker there until the time is up."""
_LOOK_EACH_S = 0.02
_OTHERS_S = 1.0
"""Seconds after a refusal within which another broker may answer."""
_CONNECT_S = 0.5
_ADDRESSES = 3


class RefusedConnections:
    """The last refusal of a connection of an admin client, since a broker last answered the client.

    Make the client with ``settings``: the given ones, and an ``error_cb`` that also calls the user's own.
    """

    def __init__(self, settings: Mapping[str, Any], address: str) -> None:
        theirs: Callable[[KafkaError], None] | None = settings.get("error_cb")
        self._address, self._given = address, settings
        self._refusal: KafkaError | None = None
        self.answered = False
        """True if a broker has ever answered the client."""

        def failed(error: KafkaError) -> None:
            if error.code() in _REFUSED or _TLS_ALERT.search(error.str()):
                self._refusal = error
            if theirs is not None:
                theirs(error)

        self.settings = {**settings, "error_cb": failed}

    @property
    def refused(self) -> bool:
        """True if a broker has refused this client since the last answer."""
        return self._refusal is not None

    def accepted_again(self) -> None:
        """Note that a broker has answered."""
        self.answered, self._refusal = True, None

    def answer(self, client: AdminClient, asked: Future[T], timeout_s: float) -> T:
        """Returns the answer to a request. Raises KafkaException, also when time is up, and early when a broker refuses
        the client and no other answers."""
        begun = time.monotonic()
        refused_s: float | None = None
        while not asked.done():
            now = time.monotonic()
            if now - begun > timeout_s:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if self._refusal is not None:
                refused_s = refused_s or now
                if now - refused_s > _OTHERS_S:
                    raise KafkaException(self._refusal)
            wait([asked], _LOOK_EACH_S)
            client.poll(0)
        found = asked.result()
        self.accepted_again()
        return found

    def explained(self, error: StreamsError, what: str) -> StreamsError:
        """Returns the error to raise instead of ``error``, which reports that no broker answers: with the cause, if
        known."""
        if self._refusal is not None:
            message = without_secrets(self._refusal.str(), self._given)
            return KafkaRefusedError(
                f"cannot {what}: the broker at {self._address} refuses this client: {message}: {_advice(self._refusal)}"
            )
        if isinstance(error, BrokerUnreachableError) and (url := _NO_PROTOCOL.search(self._address)):
            return BrokerUnreachableError(f"{error}. Write host:port, without {url[0]!r}")
        if isinstance(error, BrokerUnreachableError) and (listening := _listening(self._address)):
            protocol = str(self._given.get("security.protocol", "plaintext")).upper()
            return BrokerUnreachableError(
                f"{error}. A process listens at {listening}: a broker that starts or hangs, or one that requires "
                f"another security.protocol than {protocol} (docs/SECURITY.md)"
            )
        return error


def _advice(error: KafkaError) -> str:
    message = error.str()
    if "certificate verify failed" in message:
        return (
            "set ssl.ca.location to a PEM file with the certificate of the authority that has signed the broker's, "
            "which must name the host that bootstrap.servers names (docs/SECURITY.md)"
        )
    if error.code() == KafkaError._SSL or _TLS_ALERT.search(message):
        return (
            "set ssl.certificate.location and ssl.key.location to PEM files with a certificate that the broker trusts "
            "and its key; check security.protocol (docs/SECURITY.md)"
        )
    return "check sasl.mechanism, sasl.username and sasl.password (docs/SECURITY.md)"


def _listening(bootstrap_servers: str) -> str | None:
    """Returns the first address that accepts connections, among the first three; None if none does."""
    for address in bootstrap_servers.split(",")[:_ADDRESSES]:
        place = address.strip().rpartition("://")[2]
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, ValueError):
            continue
        return place
    return None
