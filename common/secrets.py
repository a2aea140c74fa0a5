"""Recognises the secrets in a configuration, and masks them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

MASK = "****"
_SECRET = re.compile(
    r"password|passphrase|secret|jaas|credential|token|private\.key|ssl\.key(store\.key|\.pem)|\.pem$|^ssl_key$"
    r"|sasl\.oauthbearer\.(?!method$)|basic\.auth\.user\.info$|(account|access|master|sas)_key$|customer_key"
    r"|^schema\.registry\.proxy$",
    re.IGNORECASE,
)
"""Matches the names of secrets in librdkafka, in Java and of object storage, and mistyped ones: hiding too much does no
harm."""
_PLACE = re.compile(r"\.(location|url)$|^sasl\.oauthbearer\.token\.endpoint\.url$")
"""Matches the names of keys with the location of a secret, which is not a secret itself."""


def is_secret(key: object) -> bool:
    """Returns True if the value of a configuration key, with or without a client's prefix, must not be shown."""
    name = str(key)
    for prefix in ("consumer.", "producer.", "admin.", "object.store."):
        name = name.removeprefix(prefix)
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


def shown_value(key: object, value: object) -> str:
    """Returns ``repr`` of the value of a key, or the mask."""
    return MASK if is_secret(key) and value is not None else repr(value)


def without_secrets(text: str, entries: Mapping[str, object]) -> str:
    """Returns ``text`` of another program, such as librdkafka, with the secrets of ``entries`` masked."""
    secrets = [str(value) for key, value in entries.items() if is_secret(key) and value not in (None, "")]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


class Entries(dict[str, Any]):
    """Entries of a configuration: a ``dict`` that hides its secrets where it is shown, as in a log or a traceback."""

    @override
    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {shown_value(key, value)}" for key, value in self.items()) + "}"
