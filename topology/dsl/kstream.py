"""``KStream``: a stream of independent records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from penstock.common.errors import TopologyError
from penstock.common.time import Duration
from penstock.topology.arity import checked_function, takes_key
from penstock.topology.dsl.branched import BranchedKStream
from penstock.topology.dsl.deduplicate import deduplicated_stream
from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.dsl.kstream_calls import KStreamCalls
from penstock.topology.dsl.ktable import KTable, table_of
from penstock.topology.dsl.stream_base import NameLike, checked_option
from penstock.topology.logical.graph import Operation, Sink, new_repartition, require_same_graph
from penstock.topology.naming import checked_name
from penstock.topology.options.deduplicated import Deduplicated
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped, Produced, Repartitioned
from penstock.topology.physical.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    ForEach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    SelectKey,
)
from penstock.topology.processor_api.processor import TopicNameExtractor

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
I = TypeVar("I")  # noqa: E741  # an id


class KStream(KStreamCalls[K, V]):
    """A stream of records. Mirrors ``KStream``; made by :meth:`StreamsBuilder.stream` and by operators.

    Each operator adds a node to the builder's graph and returns a new object; nothing runs. Keys and values may be
    None. Operators without state keep timestamp and headers. ``named`` names the operator. After an operator that may
    change the key, operators that depend on the key (grouping, joining, ``to_table``) read the stream through a
    repartition topic.
    """

    # ---- one record to at most one record ----

    @overload
    def filter(self, predicate: Callable[[V], bool], *, named: NameLike | None = None) -> KStream[K, V]: ...
    @overload
    def filter(self, predicate: Callable[[K, V], bool], *, named: NameLike | None = None) -> KStream[K, V]: ...
    def filter(self, predicate: Callable[..., bool], *, named: NameLike | None = None) -> KStream[K, V]:
        """Keeps the records for which ``predicate(value)`` or ``predicate(key, value)`` is true. Mirrors ``filter``.

        ``predicate`` gets the key if it needs two arguments, or takes any number of them. A key that no function is
        given may stay undecoded.
        """
        return self._filtered(predicate, False, named)

    @overload
    def filter_not(self, predicate: Callable[[V], bool], *, named: NameLike | None = None) -> KStream[K, V]: ...
    @overload
    def filter_not(self, predicate: Callable[[K, V], bool], *, named: NameLike | None = None) -> KStream[K, V]: ...
    def filter_not(self, predicate: Callable[..., bool], *, named: NameLike | None = None) -> KStream[K, V]:
        """Keeps the records for which ``predicate(value)`` or ``predicate(key, value)`` is false. Mirrors
        ``filterNot``."""
        return self._filtered(predicate, True, named)

    def _filtered(self, predicate: Callable[..., bool], negate: bool, named: NameLike | None) -> KStream[K, V]:
        call = "filter_not" if negate else "filter"
        with_key = takes_key(predicate, f"{call}: predicate", "value", key_if_any_number=True)
        name = self._head.name(named, "KSTREAM-FILTER-")
        return KStream(self._head.then(name, Filter(predicate, negate, with_key)))

    @overload
    def map_values(self, mapper: Callable[[V], VR], *, named: NameLike | None = None) -> KStream[K, VR]: ...
    @overload
    def map_values(self, mapper: Callable[[K, V], VR], *, named: NameLike | None = None) -> KStream[K, VR]: ...
    def map_values(self, mapper: Callable[..., VR], *, named: NameLike | None = None) -> KStream[K, VR]:
        """Replaces each value by ``mapper(value)`` or ``mapper(key, value)``, depending on the arguments that
        ``mapper`` takes. The key remains, so nothing is repartitioned; do not change a mutable key. Null values reach
        the mapper. Mirrors ``mapValues``.
        """
        with_key = takes_key(mapper, "map_values: mapper", "value")
        name = self._head.name(named, "KSTREAM-MAPVALUES-")
        return KStream(self._head.then(name, MapValues(mapper, with_key)))

    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], *, named: NameLike | None = None) -> KStream[KR, VR]:
        """Replaces each record by the pair ``mapper(key, value)``. Mirrors ``map``. A pair is a tuple of two: a list,
        or a text of two letters, is an error of the record.
        """
        checked_function(mapper, "map: mapper", "key", "value")
        name = self._head.name(named, "KSTREAM-MAP-")
        return KStream(self._head.then(name, Map(mapper)))

    @overload
    def select_key(self, mapper: Callable[[V], KR], *, named: NameLike | None = None) -> KStream[KR, V]: ...
    @overload
    def select_key(self, mapper: Callable[[K, V], KR], *, named: NameLike | None = None) -> KStream[KR, V]: ...
    def select_key(self, mapper: Callable[..., KR], *, named: NameLike | None = None) -> KStream[KR, V]:
        """Replaces each key by ``mapper(value)`` or ``mapper(key, value)``, which may be None. Mirrors
        ``selectKey``."""
        with_key = takes_key(mapper, "select_key: mapper", "value", key_if_any_number=True)
        name = self._head.name(named, "KSTREAM-KEY-SELECT-")
        return KStream(self._head.then(name, SelectKey(mapper, with_key)))

    # ---- one record to any number ----

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, named: NameLike | None = None
    ) -> KStream[KR, VR]:
        """Replaces each record by the pairs (tuples of two) that ``mapper(key, value)`` returns, in their order.

        The mapper may be a generator function. Mirrors ``flatMap``.
        """
        checked_function(mapper, "flat_map: mapper", "key", "value", may_yield=True)
        name = self._head.name(named, "KSTREAM-FLATMAP-")
        return KStream(self._head.then(name, FlatMap(mapper)))

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[VR]], *, named: NameLike | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[VR]], *, named: NameLike | None = None
    ) -> KStream[K, VR]: ...
    def flat_map_values(self, mapper: Callable[..., Iterable[VR]], *, named: NameLike | None = None) -> KStream[K, VR]:
        """Replaces each record by one for each value that ``mapper(value)`` or ``mapper(key, value)`` returns, under
        the same key.

        The mapper may be a generator function. Mirrors ``flatMapValues``.
        """
        with_key = takes_key(mapper, "flat_map_values: mapper", "value", may_yield=True)
        name = self._head.name(named, "KSTREAM-FLATMAPVALUES-")
        return KStream(self._head.then(name, FlatMapValues(mapper, with_key)))

    # ---- side effects ----

    @overload
    def peek(self, action: Callable[[V], object], *, named: NameLike | None = None) -> KStream[K, V]: ...
    @overload
    def peek(self, action: Callable[[K, V], object], *, named: NameLike | None = None) -> KStream[K, V]: ...
    def peek(self, action: Callable[..., object], *, named: NameLike | None = None) -> KStream[K, V]:
        """Call ``action(value)`` or ``action(key, value)`` for each record and forward it unchanged. Mirrors ``peek``.

        ``action`` gets the key if it needs two arguments, or takes any number of them, as ``print`` does. It is called
        again for records that are processed again after a failure.
        """
        with_key = takes_key(action, "peek: action", "value", key_if_any_number=True)
        return KStream(self._head.then(self._head.name(named, "KSTREAM-PEEK-"), Peek(action, with_key)))

    @overload
    def for_each(self, action: Callable[[V], object], *, named: NameLike | None = None) -> None: ...
    @overload
    def for_each(self, action: Callable[[K, V], object], *, named: NameLike | None = None) -> None: ...
    def for_each(self, action: Callable[..., object], *, named: NameLike | None = None) -> None:
        """Call ``action(value)`` or ``action(key, value)``, as in :meth:`peek`, and end the stream.

        Mirrors ``foreach``.
        """
        with_key = takes_key(action, "for_each: action", "value", key_if_any_number=True)
        self._head.then(self._head.name(named, "KSTREAM-FOREACH-"), ForEach(action, with_key))

    # ---- several streams ----

    def merge(self, other: KStream[K, V], *, named: NameLike | None = None) -> KStream[K, V]:
        """Returns a stream with the records of both, each side in its own order. Mirrors ``merge``. Serdes are not
        inherited."""
        _check_kind(other, KStream, "merge", "a KStream")
        here, there = self._head, other._head
        require_same_graph(here.graph, there.graph, "merge")
        node = Operation(here.name(named, "KSTREAM-MERGE-"), PassThrough)
        node.merging = True
        here.graph.add(node, here.node, there.node)
        return KStream(
            here.moved(
                node,
                key_serde=None,
                value_serde=None,
                sources=here.sources | there.sources,
                repartition_required=here.repartition_required or there.repartition_required,
            )
        )

    def split(self, *, named: NameLike | None = None) -> BranchedKStream[K, V]:
        """Begin to route each record to the first branch whose predicate holds. Mirrors ``split``.

        >>> import penstock as ps
        >>> numbers = ps.StreamsBuilder().stream("numbers")
        >>> branches = numbers.split(named="n-").branch(lambda k, v: v > 9, ps.Branched.as_("big")).default_branch()
        >>> sorted(branches)
        ['n-0', 'n-big']
        """
        return BranchedKStream(self._head, named, KStream)

    # ---- duplicates ----

    @overload
    def deduplicate(
        self, within: Duration, *, deduplicated: Deduplicated[K, V, Any] | None = None
    ) -> KStream[K, V]: ...
    @overload
    def deduplicate(
        self,
        within: Duration,
        id_extractor: Callable[[V], I | None],
        deduplicated: Deduplicated[K, V, I] | None = None,
    ) -> KStream[K, V]: ...
    @overload
    def deduplicate(
        self,
        within: Duration,
        id_extractor: Callable[[K, V], I | None],
        deduplicated: Deduplicated[K, V, I] | None = None,
    ) -> KStream[K, V]: ...
    def deduplicate(
        self,
        within: Duration,
        id_extractor: Callable[..., Any] | None = None,
        deduplicated: Deduplicated[K, V, Any] | None = None,
    ) -> KStream[K, V]:
        """Drops duplicates: of records with the same key that are at most ``within`` apart in event time, only the
        first that is processed goes through. Mirrors ``deduplicateByKey``, and with an ``id_extractor``
        ``deduplicateByKeyValue`` (KIP-655, which Kafka Streams 4.3 does not have).

        With ``id_extractor(value)`` or ``id_extractor(key, value)``, depending on the arguments it takes, duplicates
        have the same key and the same id; both are compared as bytes. The id's serde is that of ``deduplicated``, else
        the configuration's of keys. A record whose key or id is None goes through.

        A record is compared with those that went through, not with duplicates, so one that comes each second goes
        through once per interval. One that comes late, in event time, is also a duplicate of a later one that is at
        most ``within`` apart. A record that went through is remembered until the largest timestamp that was seen is
        ahead of it by the retention: twice ``within``, unless ``deduplicated`` sets another. A record that is older
        than that when it comes goes through, and is not remembered, if no remembered record is within ``within`` of it.
        Records are not held back or changed, and duplicates are not counted as dropped. If the key may have changed,
        the stream is repartitioned. More in docs/DEDUPLICATION.md.

        Raises TopologyError for an interval of 0 and for a retention that is shorter than the interval.

        >>> import penstock as ps
        >>> orders = ps.StreamsBuilder().stream("orders")
        >>> once = orders.deduplicate(600_000, lambda order: order["id"], ps.Deduplicated.as_("orders-seen"))
        """
        return KStream(deduplicated_stream(self._head, within, id_extractor, deduplicated))

    # ---- topics ----

    @overload
    def to(self, topic: str | TopicNameExtractor, produced: Produced[K, V] | None = None) -> None: ...
    @overload
    def to(self: KStream[K, VR | None], topic: str | TopicNameExtractor, produced: Produced[K, VR]) -> None: ...
    def to(self, topic: str | TopicNameExtractor, produced: Produced[Any, Any] | None = None) -> None:
        """Write every record, nulls included, to ``topic``, which must exist. Mirrors ``to``.

        ``topic`` may be a function of (key, value, RecordContext) that names the topic of each record. Serdes that
        ``produced`` does not give are the stream's.
        """
        if isinstance(topic, str):
            checked_name(topic, "topic")
        else:
            checked_function(topic, "to: a topic that is no string", "key", "value", "context")
        checked_option(produced, Produced, "to")
        how = produced or Produced()
        head = self._head
        name = head.graph.names.processor_or(how.name, "KSTREAM-SINK-")
        serdes = (how.key_serde or head.key_serde, how.value_serde or head.value_serde)
        head.graph.add(Sink(name, topic, Produced(*serdes, how.partitioner, how.name)), head.node)

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None) -> KStream[K, V]:
        """Writes the records to an internal topic, partitioned by key, and reads them from there. Mirrors
        ``repartition``. The topic is ``<application.id>-<name>-repartition``; it is made even if the key did not
        change, and no optimisation removes it. Records with a null key are dropped, unless a left join follows. Serdes
        that are not given are the stream's.
        """
        checked_option(repartitioned, Repartitioned, "repartition")
        how = repartitioned or Repartitioned()
        head = self._head
        node = new_repartition(
            head.graph,
            how.name or head.graph.names.processor("KSTREAM-REPARTITION-"),
            how.key_serde or head.key_serde,
            how.value_serde or head.value_serde,
            partitioner=how.partitioner,
            partitions=how.number_of_partitions,
            optimizable=False,
        )
        head.graph.add(node, head.node)
        below = head.below(node)
        below.note_user_call("repartition", "Repartitioned")
        return KStream(below)

    # ---- grouping ----

    def group_by_key(self, grouped: Grouped[K, V] | None = None) -> KGroupedStream[K, V]:
        """Groups records by their key; repartitions them only if the key may have changed. Mirrors ``groupByKey``.
        Without ``grouped`` the stream's serdes are used; with it only those that it gives.
        """
        checked_option(grouped, Grouped, "group_by_key")
        return KGroupedStream(self._head, grouped or Grouped(self._head.key_serde, self._head.value_serde))

    @overload
    def group_by(
        self, selector: Callable[[V], KR | None], grouped: Grouped[KR, V] | None = None
    ) -> KGroupedStream[KR, V]: ...
    @overload
    def group_by(
        self, selector: Callable[[K, V], KR | None], grouped: Grouped[KR, V] | None = None
    ) -> KGroupedStream[KR, V]: ...
    def group_by(
        self, selector: Callable[..., KR | None], grouped: Grouped[KR, V] | None = None
    ) -> KGroupedStream[KR, V]:
        """Groups records by ``selector(value)`` or ``selector(key, value)``, through a repartition topic. Mirrors
        ``groupBy``.

        A record whose new key is None is dropped. ``grouped`` names serdes and the topic.
        """
        with_key = takes_key(selector, "group_by: selector", "value", key_if_any_number=True)
        checked_option(grouped, Grouped, "group_by")
        how = grouped or Grouped(None, self._head.value_serde)
        name = self._head.name(how.name, "KSTREAM-KEY-SELECT-")
        return KGroupedStream(self._head.then(name, SelectKey(selector, with_key)), how)

    def to_table(
        self, materialized: Materialized[K, V] | None = None, *, named: NameLike | None = None
    ) -> KTable[K, V]:
        """Reads the stream as a changelog: the table has the latest value per key. Mirrors ``toTable``. A record with a
        null key is dropped and counted in ``dropped-records-total``, a null value deletes. The stream is repartitioned
        if the key may have changed. The table is kept in a store only if it is named, or if an operator looks up its
        rows.
        """
        checked_option(materialized, Materialized, "to_table")
        return table_of(self._head, materialized or Materialized(), named)


def _check_kind(given: object, kind: type[Any], call: str, what: str) -> None:
    if not isinstance(given, kind):
        raise TopologyError(f"{call} needs {what}, not {given!r} ({type(given).__name__})")
