"""Finds the records of a key by the bytes that a topic has for it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.windows import Window
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.outer_join_store import OuterJoinStoreBuilder
from penstock.state.key_value.store import SubscriptionStoreBuilder
from penstock.state.versioned.join_buffer import JoinBufferBuilder
from penstock.state.windowed.deduplication_store import DeduplicationStoreBuilder
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.state.windowed.keys import KeySchema

_OTHER_KEYS = (JoinBufferBuilder, OuterJoinStoreBuilder, SubscriptionStoreBuilder)


@dataclass(frozen=True)
class KeyForm:
    """The form of a key's bytes in a topic. ``schema``: the window behind them; None: there is none."""

    schema: KeySchema | None = None

    def is_of(self, data: bytes | None, key: bytes) -> bool:
        """Returns True if ``data``, the key of a record, is ``key``, or ``key`` in any window."""
        if data is None:
            return False
        if self.schema is None:
            return data == key
        return len(data) == len(key) + self.schema.suffix_bytes and data.startswith(key)

    def window(self, data: bytes) -> Window | None:
        """Returns the window in the key of a record."""
        return None if self.schema is None else self.schema.window(data)


def key_form(store: AnyStoreBuilder) -> KeyForm | None:
    """Returns the form of a store's keys in its changelog; None if its keys there are not those that it is asked by."""
    match store:
        case DeduplicationStoreBuilder(by_id=True):
            return None
        case ExpiringStoreBuilder():
            return KeyForm(store.schema)
        case _:
            return None if isinstance(store, _OTHER_KEYS) else KeyForm()
