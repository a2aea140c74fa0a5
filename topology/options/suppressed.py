"""``Suppressed`` and ``BufferConfig``: the options for holding back updates of a table, and the limits for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, to_ms
from penstock.common.windows import Windowed
from penstock.topology.options.checks import check_name

K = TypeVar("K", contravariant=True)


@dataclass(frozen=True)
class BufferConfig:
    """The limit of the updates that ``suppress`` may hold back. Mirrors ``Suppressed.BufferConfig``.

    Made by :meth:`max_records`, :meth:`max_bytes` or :meth:`unbounded`. Updates that are held back are in memory.
    Unless ``logging`` is off, they are also in a changelog topic from which they are restored, created with
    ``topic_config`` on top of the usual settings. A limit applies to each task by itself; None means no limit.
    """

    record_limit: int | None = None
    byte_limit: int | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, limit in (("max_records", self.record_limit), ("max_bytes", self.byte_limit)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise TopologyError(f"BufferConfig: {what} must be a whole number from 0 on, not {limit!r}")

    @staticmethod
    def max_records(record_limit: int) -> EagerBufferConfig:
        """Returns a limit of ``record_limit`` keys; if there is one more, the oldest update is emitted early.

        >>> import penstock as ps
        >>> ps.BufferConfig.max_records(1000).shut_down_when_full().record_limit
        1000
        """
        return EagerBufferConfig(record_limit)

    @staticmethod
    def max_bytes(byte_limit: int) -> EagerBufferConfig:
        """Returns a limit of ``byte_limit`` bytes, as Kafka Streams counts them: those of keys, values, topic names and
        headers, and 28 for each key. If there are more, the oldest updates are emitted early. Each update is serialised
        on arrival."""
        return EagerBufferConfig(byte_limit=byte_limit)

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """Returns a buffer without limits."""
        return StrictBufferConfig()

    def with_max_records(self, record_limit: int) -> Self:
        """Returns a copy with at most ``record_limit`` keys."""
        return replace(self, record_limit=record_limit)

    def with_max_bytes(self, byte_limit: int) -> Self:
        """Returns a copy with at most ``byte_limit`` bytes, counted as by :meth:`max_bytes`."""
        return replace(self, byte_limit=byte_limit)

    def with_no_bound(self) -> StrictBufferConfig:
        """Returns a copy without limits."""
        return StrictBufferConfig(None, None, self.logging, self.topic_config)

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Returns a copy for which an update beyond the limits is a BufferFullError, which ends the application."""
        return StrictBufferConfig(self.record_limit, self.byte_limit, self.logging, self.topic_config)

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Returns a copy that, beyond the limits, emits the oldest updates early."""
        return EagerBufferConfig(self.record_limit, self.byte_limit, self.logging, self.topic_config)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> Self:
        """Keep a changelog (the default), created with ``topic_config`` on top of the usual settings."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> Self:
        """Keep no changelog: updates that are held back are lost when their task stops or moves."""
        return replace(self, logging=False, topic_config={})


@dataclass(frozen=True)
class StrictBufferConfig(BufferConfig):
    """A buffer that emits nothing before its time. Mirrors ``Suppressed.StrictBufferConfig``."""


@dataclass(frozen=True)
class EagerBufferConfig(BufferConfig):
    """A buffer that emits its first updates early when it is full. Mirrors ``Suppressed.EagerBufferConfig``."""


@dataclass(frozen=True)
class Suppressed(Generic[K]):
    """The time until which ``suppress`` holds updates back. Mirrors ``Suppressed``; made by its methods ``until_…``.

    ``wait_ms``: None means until windows close. ``name`` is that of the operator; its buffer is then ``<name>-store``,
    and the changelog ``<application.id>-<name>-store-changelog``.
    """

    buffer_config: BufferConfig
    wait_ms: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.buffer_config, BufferConfig):
            raise TopologyError(
                f"Suppressed needs a BufferConfig, not {shown_with_type(self.buffer_config)}: pass "
                "BufferConfig.unbounded(), or one with a limit"
            )
        if self.wait_ms is None and not isinstance(self.buffer_config, StrictBufferConfig):
            raise TopologyError(
                "Suppressed.until_window_closes needs a buffer that emits nothing early: add .shut_down_when_full(), "
                "or take BufferConfig.unbounded()"
            )
        check_name(self.name)

    @staticmethod
    def until_time_limit(limit: Duration, buffer_config: BufferConfig) -> Suppressed[Any]:
        """Hold each key's updates back until ``limit`` (``timedelta`` or whole ms) after the first of them, and then
        emit the last.

        Time is that of the updates: the largest timestamp that has come in. Later updates of the key change the value
        that is emitted, but not the time of its emission. With a limit of 0 all are emitted at once. Raises ValueError
        for a negative one.
        """
        return Suppressed(buffer_config, to_ms(limit, "Suppressed.until_time_limit: limit"))

    @staticmethod
    def until_window_closes(buffer_config: StrictBufferConfig) -> Suppressed[Windowed[Any]]:
        """Hold the results of a window back until it closes, and then emit the last: one for each key and window.

        A window closes when the largest timestamp of the results that came in is its end, plus the grace period, or
        more; a session also waits for the inactivity gap. Without new records nothing closes, unless
        ``window.idle.advance.ms`` is set. A result that was deleted by then is not emitted. Raises TopologyError for a
        buffer that might emit results early.
        """
        return Suppressed(buffer_config)

    def with_name(self, name: str) -> Suppressed[K]:
        """Returns a copy with a name for the operator, its buffer and its changelog.

        An operator with a name uses up no number of generated names, so it can be added and removed without renaming
        other operators.
        """
        return replace(self, name=name)
