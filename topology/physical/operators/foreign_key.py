"""The operators of a foreign-key join, and the messages between them.

The left table's task sends, for each of its entries, a *subscription* to the task that has the foreign key. That one
stores it, and responds with the other table's value, now and whenever it changes. The left task joins a *response* with
the entry's value, unless that has changed since it subscribed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any, Self

from typing_extensions import override

from penstock.common.serdes import Serde
from penstock.topology.physical.operators.operator import (
    KEY,
    TABLE_VALUE,
    VALUE,
    FilledSerde,
    Operator,
    ValueGetter,
    called_with,
)
from penstock.topology.processor_api.processor import StreamPartitioner


@dataclass(frozen=True)
class ForeignKeySerdes:
    """The serdes of a join, bound to the topics that Kafka Streams gives them; None until the configuration is known.

    Those of the foreign and the primary key make the keys of the subscription store, that of the left value what is
    hashed. ``response_key`` and ``right_value`` are those of the response topic.
    """

    registration: str
    """The topics' names, without the application's prefix."""
    response: str
    foreign_key: Serde[Any] | None
    primary_key: Serde[Any] | None
    left_value: Serde[Any] | None
    right_value: Serde[Any] | None
    response_key: Serde[Any] | None = None

    def filled(self, fill: FilledSerde, owner: str) -> ForeignKeySerdes:
        """Returns a copy with all serdes filled in."""
        mine, other = "Materialized.with_(...) where it is made", "Consumed or Materialized"
        key, pseudo = self.primary_key, self.registration
        return replace(
            self,
            foreign_key=fill(self.foreign_key, "key", f"{pseudo}-fk", f"the other table of {owner}", other),
            primary_key=fill(key, "key", f"{pseudo}-pk", f"the left table of {owner}", other),
            left_value=fill(self.left_value, "value", f"{pseudo}-vh", f"the left table of {owner}", mine),
            right_value=fill(self.right_value, "value", self.response, f"the other table of {owner}", mine),
            response_key=fill(key, "key", self.response, f"the left table of {owner}", other),
        )


@dataclass(frozen=True, kw_only=True)
class _ForeignKeyOperator(Operator):
    """An operator of a foreign-key join. ``left``: a left join, which keeps entries without a match."""

    serdes: ForeignKeySerdes
    left: bool

    @property
    @override
    def call(self) -> str:
        return "left_join" if self.left else "join"

    @override
    def with_serdes(self, fill: FilledSerde, node: str) -> Self:
        return replace(self, serdes=self.serdes.filled(fill, self.owner(node)))


@dataclass(frozen=True, kw_only=True)
class SubscriptionSend(_ForeignKeyOperator):
    """Make of each update of the left table subscriptions, with the foreign key as their key.

    ``extractor`` gives an entry's foreign key or None; an inner join drops and counts an entry without one.
    """

    extractor: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = False
    of_versions: bool = False
    """True if the table is versioned: then updates that are not the latest of their key are dropped."""

    keeps_key = keeps_value = False


@dataclass(frozen=True, kw_only=True)
class SubscriptionReceive(_ForeignKeyOperator):
    """Keep subscriptions in ``store``, or delete them, and forward them."""

    store: str

    keeps_key = keeps_value = True
    sees_value = True
    stores_by_key = stores_under_key = ()

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True, kw_only=True)
class SubscriptionJoin(_ForeignKeyOperator):
    """Answer subscriptions with the value of ``table``, the other one, under their key."""

    table: ValueGetter
    decodes_key: bool
    """True if its responses leave with keys as objects, for a partitioner of the user's."""

    keeps_key = keeps_value = False
    sees_value = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.table.stores

    @property
    @override
    def stores_by_key(self) -> tuple[str, ...]:
        return self.stores


@dataclass(frozen=True, kw_only=True)
class ForeignTableJoin(_ForeignKeyOperator):
    """Send each update of the other table to all entries that have subscribed to its key."""

    store: str
    decodes_key: bool
    of_versions: bool = False
    """True if the other table is versioned; see :class:`SubscriptionSend`."""

    keeps_key = keeps_value = False
    sees_value = True
    stores_by_key = stores_under_key = ()

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True, kw_only=True)
class ResponseJoin(_ForeignKeyOperator):
    """Join what a response brings with the value that ``table``, the left one, has of its key.

    A response to an earlier value is dropped and counted.
    """

    table: ValueGetter
    joiner: Callable[..., Any] = field(metadata=called_with(VALUE, TABLE_VALUE))

    keeps_key, keeps_value = True, False
    sees_value = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.table.stores


def by_key(partitioner: StreamPartitioner) -> StreamPartitioner:
    """Returns ``partitioner`` for the topics of a foreign-key join.

    It gets no value, because the values of these topics are not the user's. It is not called for a null key: any task
    can respond that there is no value.
    """
    return partial(_by_key, partitioner)


def _by_key(partitioner: StreamPartitioner, topic: str, key: Any, value: object, partitions: int) -> int | None:
    chosen = None if key is None else partitioner(topic, key, None, partitions)
    if isinstance(chosen, Collection):
        if len(chosen) != 1:
            raise ValueError(
                f"a partitioner of TableJoined chose {len(chosen)} partitions: a subscription or response of a "
                "foreign-key join goes to exactly one"
            )
        (chosen,) = chosen
    return chosen


def to_primary_partition(topic: str, key: object, value: tuple[int | None, bytes], partitions: int) -> int | None:
    """Returns the partition that the subscription came from, which a response brings along."""
    return value[0]


def _read(data: bytes) -> tuple[int | None, bytes]:
    return None, data


RESPONSE: Serde[tuple[int | None, bytes]] = Serde("subscription response", itemgetter(1), _read)
"""Responses on their way to the sink, each with the partition to which it goes; the source reads them as bytes."""
