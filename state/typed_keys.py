"""Keys of a store as a processor gives them, and as bytes."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.state.round_trip import RoundTripCheck


class TypedKeys:
    """Serialises the keys of ``store``, and looks now and then whether they come back as they were."""

    def __init__(self, store: str, serde: Serde[Any] | None) -> None:
        if serde is None:
            raise ValueError(f"store {store} was not given a key serde")
        self.deserialize = serde.deserialize
        """The key of its bytes."""
        self._store = store
        self._serde = serde
        self._written = 0
        self._round_trip = RoundTripCheck(store, "key", serde)

    def serialize(self, key: Any) -> bytes:
        """The bytes of ``key``. Raises SerializationError for None and for what the serde refuses."""
        if key is None:
            raise SerializationError(f"store {self._store}: a key may not be None")
        try:
            return self._serde.serialize(key)
        except Exception as error:
            raise SerializationError(f"store {self._store}: key: {why_refused(self._serde, key, error)}") from error

    def bound(self, key: Any) -> bytes | None:
        """The same for an end of a range; None is open."""
        return None if key is None else self.serialize(key)

    def written(self, key: Any) -> bytes:
        """The bytes of a ``key`` that is put."""
        data = self.serialize(key)
        self._written += 1
        if self._written == self._round_trip.next:
            self._round_trip.check(key, self._written)
        return data
