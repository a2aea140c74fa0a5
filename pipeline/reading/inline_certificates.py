"""Certificates and keys as text in the configuration: executors on other machines do not have the driver's files."""

from __future__ import annotations

from pathlib import Path

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.secrets import Entries

_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


def with_inline_certificates(config: StreamsConfig) -> StreamsConfig:
    """Returns ``config`` with the contents of PEM files (``ssl.ca.pem`` …) in place of their locations.

    A folder of certificates and a PKCS#12 store stay locations, which have to be on every machine. Raises ConfigError
    for a file that cannot be read.
    """
    clients = Entries(config.clients)
    for key, value in config.clients.items():
        name = next((name for name in _FILES if key == name or key.endswith(f".{name}")), None)
        if name is None or not Path(str(value)).is_file():
            continue  # without a file, the clients themselves report it
        text = key.removesuffix("location") + "pem"
        try:
            clients.setdefault(text, Path(str(value)).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"configuration key {key!r}: cannot read {value}: {error}") from None
        del clients[key]
    return config.model_copy(update={"clients": clients})
