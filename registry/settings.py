"""The settings of the client of a schema registry, and of the serdes that use it, by Confluent's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common.errors import ConfigError
from penstock.common.secrets import shown_value
from penstock.common.serdes import SerdePart
from penstock.common.shown import similar_to

URL = "schema.registry.url"
_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_JAVA = "io.confluent.kafka.serializers.subject."
_SWITCHES = {"auto.register.schemas": True, "use.latest.version": False, "normalize.schemas": False}
_NAMINGS = ("subject.name.strategy", "key.subject.name.strategy", "value.subject.name.strategy")
# Confluent's Python client has these names without the prefix, which tells them from those of Kafka's clients.
_CLIENT = {
    f"schema.registry.{name}": name
    for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "proxy")
}
Naming = Callable[[str, SerdePart, "str | None"], str]
"""Returns the subject of a topic, a part and the full name of a record."""


@dataclass(frozen=True)
class RegistrySettings:
    """Checked settings. Two of equal entries are equal. Made by :meth:`of`."""

    url: str
    client: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    """The settings of Confluent's client, by its names."""
    auto_register: bool = True
    use_latest: bool = False
    normalize: bool = False
    key_strategy: str | Naming = _STRATEGIES[0]
    value_strategy: str | Naming = _STRATEGIES[0]

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> RegistrySettings:
        """Returns the settings in ``entries``. Raises ConfigError for one that is unknown or not allowed."""
        url = entries.get(URL)
        if url is not None and not isinstance(url, str):
            raise _wrong(URL, url, "a URL is expected, as text")
        if not url:
            raise ConfigError(
                f"{URL} is not set: set it in the configuration of the application, or pass it to the serde, as in "
                f"Serdes.avro(Order, config={{{URL!r}: 'http://localhost:8081'}})"
            )
        if "@" in url:
            raise ConfigError(
                f"{URL} is shown in logs: pass user and password as basic.auth.user.info, 'USER:PASSWORD'"
            )
        if not url.startswith(("http://", "https://", "mock://")):
            raise _wrong(URL, url, "a URL is expected that begins with http://, https:// or mock://")
        switches = {name: _switch(name, entries.get(name, default)) for name, default in _SWITCHES.items()}
        if switches["auto.register.schemas"] and switches["use.latest.version"]:
            if entries.get("auto.register.schemas") is not None:
                raise ConfigError("use.latest.version needs auto.register.schemas=False: only one of them can apply")
            switches["auto.register.schemas"] = False
        return cls(
            url,
            tuple(sorted(_client(entries).items())),
            switches["auto.register.schemas"],
            switches["use.latest.version"],
            switches["normalize.schemas"],
            _strategy(entries, "key.subject.name.strategy"),
            _strategy(entries, "value.subject.name.strategy"),
        )

    def subject(self, topic: str, part: SerdePart, record: str | None) -> str:
        """Returns the subject of a part of a topic. Raises ConfigError if it needs the name of a record without one."""
        strategy = self.key_strategy if part == "key" else self.value_strategy
        if callable(strategy):
            return strategy(topic, part, record)
        if strategy == "TopicNameStrategy":
            return f"{topic}-{part}"
        if record is None:
            raise ConfigError(f"{strategy} names subjects after records: the {part} of topic {topic!r} is no record")
        return record if strategy == "RecordNameStrategy" else f"{topic}-{record}"


def _client(entries: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: entries[key] for key, name in _CLIENT.items() if entries.get(key) is not None}
    for key, value in entries.items():
        if value is None or key == URL or key in _SWITCHES or key in _NAMINGS or key in _CLIENT:
            continue
        if key == "basic.auth.credentials.source":
            if value != "USER_INFO":
                raise ConfigError(f"{key}: USER_INFO is expected, which needs basic.auth.user.info; not {value!r}")
        elif key == "basic.auth.user.info" or key.startswith("bearer.auth."):
            found[key] = value
        else:
            known = sorted([URL, *_SWITCHES, *_NAMINGS, *_CLIENT, "basic.auth.user.info"])
            raise ConfigError(
                f"{key!r} is no setting of a schema registry{similar_to(key, known)}: there are {', '.join(known)}, "
                "bearer.auth.*"
            )
    return found


def _switch(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise _wrong(name, value, "True or False is expected")


def _strategy(entries: Mapping[str, Any], name: str) -> str | Naming:
    """Returns the strategy that ``name`` sets, else the one that is set for keys and values."""
    if not entries.get(name):
        name = _NAMINGS[0]
    value: object = entries.get(name) or _STRATEGIES[0]
    if callable(value):
        return value
    short = str(value).removeprefix(_JAVA)
    if short not in _STRATEGIES:
        raise _wrong(name, value, f"allowed are {', '.join(_STRATEGIES)}, or a function of topic, part and record name")
    return short


def _wrong(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"{name}: {why}, not {shown_value(name, value)}")
