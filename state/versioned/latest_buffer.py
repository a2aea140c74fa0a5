"""The write buffer of the latest versions, which are what operators of the DSL see of a versioned store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.state.contracts import Log, StateStoreContext
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE
from penstock.state.write_buffer.write_buffer import WriteBuffer

VALID_TO_UNDEFINED = -1
"""Returned by a put of a version that is the latest of its key: it has no end yet."""
NOT_PUT = -(1 << 63)
"""Returned by a put of a version that is older than the history that is kept: it was not put."""

_Add = Callable[[bytes, Any, bytes | None, int, Headers | None], int]
"""Puts (key, value, its bytes, timestamp, headers), and returns the end of the version that was put."""


class LatestBuffer(WriteBuffer):
    """The latest version of each key, which is what the operators of the DSL see of the store.

    ``valid_to`` is the result of the last :meth:`put`: the end of the version that was put, or VALID_TO_UNDEFINED, or
    NOT_PUT.
    """

    def __init__(
        self, name: str, value_serde: Serde[Any] | None, context: StateStoreContext, add: _Add, log: Log | None
    ) -> None:
        super().__init__(name, value_serde, TIMESTAMPED_VALUE, context)
        self.valid_to = VALID_TO_UNDEFINED
        self._add = add
        self._write_log = log

    @override
    def put(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Put a version of ``key`` from ``timestamp`` on, None is a deletion. It is the latest one, or part of history,
        or too late: then it is not put. The changelog gets all of them, as in Kafka Streams."""
        data = self.serialized(key, value)
        self.valid_to = self._add(key, value, data, timestamp, headers)
        if self._write_log is not None:
            self._write_log(key, data, timestamp)

    def set_latest(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Replace the latest version."""
        self.clean.pop(key, None)
        super().put(key, value, timestamp, headers)

    def serialized(self, key: bytes, value: Any) -> bytes | None:
        """The bytes of ``value``. Raises SerializationError for one that the store's serde refuses."""
        try:
            return None if value is None else self._serialize(value)
        except Exception as error:
            raise self.refused(key, value, error) from error
