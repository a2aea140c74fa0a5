"""Finds the form of a store's keys, the task that has one, and the serdes that a reader needs for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from ray import cloudpickle

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.application_metadata import StoreMetadata
from penstock.common.errors import ConfigError, RetriableError, SerializationError
from penstock.common.ids import TaskId
from penstock.common.may_wait import in_event_loop
from penstock.common.serdes import Serde, why_refused
from penstock.common.windows import Windowed
from penstock.state.entries import EntryForm
from penstock.topology.physical.topology import internal_topic


class KeyHome(NamedTuple):
    """The bytes of a key in its store, the tasks in which it is looked for ``first``, and the ``others`` in which it is
    looked for then: none if it cannot be there."""

    data: bytes
    first: tuple[TaskId, ...]
    others: tuple[TaskId, ...]

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Every task that may have a row of the key."""
        return self.first + self.others

    def within(self, partitions: Collection[int]) -> KeyHome:
        """Returns the home of the key without the tasks of other partitions."""
        first, others = (
            tuple(task for task in tasks if task.partition in partitions) for tasks in (self.first, self.others)
        )
        return KeyHome(self.data, first, others)


class PlacedKey(NamedTuple):
    """A key of ``store``: its bytes there, those by which it is placed, and the partitions that may have it."""

    store: StoreMetadata
    stored: bytes
    placed: bytes
    partitions: tuple[int, ...]


class KeySerdes(NamedTuple):
    """The form of a key in a store, and in the source topic whose partitioning decides which task has it.

    ``produced`` is the serde of that topic, ``otherwise`` the store's own, bound to that topic. ``entries``: how the
    store's rows are read.
    """

    stored: Serde[Any]
    produced: Serde[Any]
    otherwise: Serde[Any]
    entries: EntryForm

    async def find_home(self, where: StoreMetadata, key: Any) -> KeyHome:
        """Returns :meth:`home_of`, without a wait for a schema registry that would stop the event loop."""
        return await in_event_loop(lambda: self.home_of(where, key))

    async def locate(self, where: StoreMetadata, key: Any) -> PlacedKey:
        """Returns the place of ``key`` and its bytes, as :meth:`find_home` does."""
        home = await self.find_home(where, key)
        placed = await in_event_loop(lambda: self.placed(where.name, key, home.data))
        return PlacedKey(where, home.data, placed, tuple(task.partition for task in home.tasks))

    def home_of(self, where: StoreMetadata, key: Any) -> KeyHome:
        """Returns the home of ``key`` in the store. Raises SerializationError."""
        data = key_bytes(where.name, self.stored, key)
        tasks = [TaskId(where.subtopology, partition) for partition in range(where.partitions)]
        first = where.partitioner.partition_of(self.placed(where.name, key, data), where.partitions)
        if first is None:
            return KeyHome(data, tuple(tasks), ())
        others = () if where.certain else tuple(task for task in tasks if task.partition != first)
        return KeyHome(data, (tasks[first],), others)

    def placed(self, store: str, key: Any, stored: bytes) -> bytes:
        """Returns the bytes by which ``key``, stored as ``stored``, was given to a partition, or may have been."""
        if self.produced is self.stored or self.produced == self.stored:
            return stored
        if isinstance(key, Windowed):
            key = key.key  # an operator has made windows of the topic's keys
        try:
            return self.produced.serialize(key)
        except RetriableError:  # the bytes will be known: any others would name another partition
            raise
        except Exception:  # a serde may raise anything: see Serde
            # The topic has keys of another type: a processor has made those of the store. Often of the same bytes.
            try:
                return self.otherwise.serialize(key)
            except RetriableError:
                raise
            except Exception:  # see above
                return stored


def key_bytes(store: str, serde: Serde[Any], key: Any) -> bytes:
    """Returns the key as ``serde`` writes it. Raises SerializationError naming the store."""
    try:
        return serde.serialize(key)
    except Exception as error:  # a serde may raise anything: see Serde
        raise SerializationError(f"store {store!r}: key: {why_refused(serde, key, error)}") from error


def pickled_key_serdes(spec: ApplicationSpec, store: str, source_topic: str) -> bytes:
    """Returns, pickled, the serdes (None: there is none) of the keys of a store and of a topic that its sub-topology
    reads, and the form of the store's rows. The reader binds the serdes: a bound one may hold what cannot be pickled.
    The whole program is left out: unpickling it takes all of its code, which a reader need not have."""
    topology, default = spec.topology, spec.config.default_key_serde
    produced = default
    for source in (source for sub in topology.every_subtopology for source in sub.sources):
        names = [internal_topic(spec.application_id, name) if source.internal else name for name in source.topics]
        if source_topic in names or (source.pattern is not None and source.pattern.fullmatch(source_topic)):
            produced = source.key_serde or default
    builder = topology.store_builders[store]
    own, settings = builder.key_serde or default, spec.config.serde_settings
    configured = [serde and serde.configure(settings) for serde in (own, produced)]
    serdes = (*configured, builder.entries)
    pickled: bytes = cloudpickle.dumps(serdes)  # type: ignore[no-untyped-call]  # untyped in Ray
    return pickled


def unpickled(store: str, pickled: bytes) -> tuple[Serde[Any] | None, Serde[Any] | None, EntryForm]:
    """Returns the serdes of a store's keys and of the topic that places them, and how its rows are read, from what
    :func:`pickled_key_serdes` returns. Raises ConfigError when their code is not here."""
    try:
        serdes: tuple[Serde[Any] | None, Serde[Any] | None, EntryForm] = cloudpickle.loads(pickled)
    except Exception as error:  # the serde may be of the user's code, which is imported here
        raise ConfigError(
            f"the key serde of store {store!r} cannot be used here, as its code, or that of the key serde of the "
            "topic that it is made from, cannot be imported: "
            f"{type(error).__name__}: {error}. Ask from the folder that the application was started in, or over HTTP"
        ) from error
    return serdes
