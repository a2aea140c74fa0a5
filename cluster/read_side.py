"""The read side: the questions to a running application from outside, and the values of the answers.

``cluster/queries/queries.py`` answers over actor calls; ``api/`` and ``cli/`` ask. This module does not use Ray, so
that they do not need Ray. Code outside of ``cluster/`` imports all these types from here, statuses too; ``cluster/``
itself imports statuses from ``cluster/status.py`` and ``actors/status.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.actors.flame import LONGEST_FLAME_S, Flame, FlameOwner, FlameRefused
from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.application_history import (
    BUSY_STEPS,
    BUSY_UNKNOWN,
    HOUR_MS,
    NO_ACTOR,
    TASK_STATES,
    ApplicationHistory,
    EventKind,
    EventLevel,
    Flow,
    HistoryEvent,
    Sample,
    Totals,
)
from penstock.cluster.application_metadata import StoreMetadata
from penstock.cluster.letter_side import LetterSide
from penstock.cluster.operate_side import OperateSide
from penstock.cluster.program_view import FunctionView, ProgramView, RolloutView
from penstock.cluster.record_side import RecordSide
from penstock.cluster.rollout import Rollout, RolloutPhase
from penstock.cluster.scaling_status import ActorCount, ScalingStatus
from penstock.cluster.status import SILENT, WAITING, ApplicationState, ApplicationStatus, StuckTask
from penstock.common.errors import ApplicationStateError, RetriableError, SerializationError, UnknownStateStoreError
from penstock.common.position import Position, PositionBound
from penstock.common.serdes import Serde
from penstock.state.entries import StoreEntry
from penstock.state.queries import KeyQuery, PrefixQuery, Query, RangeQuery, RowsQuery
from penstock.state.versioned.queries import MultiVersionedKeyQuery, VersionedKeyQuery
from penstock.state.windowed.queries import SessionQuery, SessionRangeQuery, WindowKeyQuery, WindowRangeQuery

__all__ = [
    "BUSY_STEPS",
    "BUSY_UNKNOWN",
    "DEFAULT_WAIT_S",
    "HOUR_MS",
    "LONGEST_FLAME_S",
    "LONGEST_WAIT_S",
    "NO_ACTOR",
    "SILENT",
    "STOPPED",
    "TASK_STATES",
    "WAITING",
    "ActorCount",
    "ActorStatus",
    "ApplicationHistory",
    "ApplicationState",
    "ApplicationStatus",
    "EventKind",
    "EventLevel",
    "Flame",
    "FlameOwner",
    "FlameRefused",
    "Flow",
    "FunctionView",
    "HistoryEvent",
    "KeyQuery",
    "LetterSide",
    "MultiVersionedKeyQuery",
    "OperateSide",
    "PositionBound",
    "PrefixQuery",
    "ProgramView",
    "Query",
    "RangeQuery",
    "ReadSide",
    "Reading",
    "RecordSide",
    "Rollout",
    "RolloutPhase",
    "RolloutView",
    "RowsQuery",
    "Sample",
    "ScalingStatus",
    "SessionQuery",
    "SessionRangeQuery",
    "StoreEntries",
    "StoreEntry",
    "StoreMetadata",
    "StuckTask",
    "TaskState",
    "TaskStatus",
    "Totals",
    "VersionedKeyQuery",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "ends_before_it_begins",
    "state_error",
    "swapped_range_hint",
    "unknown_store",
]


DEFAULT_WAIT_S = 1.0
"""Seconds that a store has to reach a position, unless the caller chooses others."""
LONGEST_WAIT_S = 10.0

_NUMBERS = frozenset({"short", "integer", "long", "float", "double"})


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """One page of a range. ``cursor`` continues where the page ends; None at the end of the range."""

    entries: tuple[StoreEntry, ...]
    cursor: str | None


class Reading:
    """Conditions on the answer to one question. After the answer it also has the positions of the stores that gave it.

    ``committed`` leaves out changes that are not committed. ``bound``: the answer must not be older than that; a store
    has ``wait_s`` seconds to reach it. ``stale``: if the task is not available, restores or does not answer, the answer
    may come from a standby, or from the rows that are restored so far; ``was_stale``: such an answer was given.
    ``partitions``: those of the store that may answer; None: all.
    """

    def __init__(
        self,
        committed: bool = False,
        bound: PositionBound | None = None,
        wait_s: float = DEFAULT_WAIT_S,
        stale: bool = False,
        partitions: frozenset[int] | None = None,
    ) -> None:
        self.committed = committed
        self.partitions = partitions
        self.stale = stale
        self.was_stale = False
        self.bound = None if bound is None or bound.is_unbounded else bound.position
        self.wait_s = wait_s
        self.waits_until: float | None = None
        self._seen: dict[str, dict[int, int]] = {}

    @property
    def position(self) -> Position:
        """The position up to which all stores that answered have seen every record."""
        return Position(self._seen)

    @property
    def json_fields(self) -> dict[str, Any]:
        """Fields that are added to an answer in JSON: its position, and ``stale`` if it is stale."""
        position = {"position": self.position.offsets}
        return position | {"stale": True} if self.was_stale else position

    def answered_at(self, position: Position) -> None:
        """Take the position of a part of the answer. Of several parts by one task the oldest counts."""
        for topic, partitions in position.offsets.items():
            seen = self._seen.setdefault(topic, {})
            for partition, offset in partitions.items():
                seen[partition] = min(offset, seen.get(partition, offset))


STOPPED = "it is stopping or has stopped"


def state_error(status: ApplicationStatus, why: str = STOPPED) -> ApplicationStateError:
    """Returns the error for a question to an application that does not run; ``why`` if it did not fail."""
    return ApplicationStateError(
        f"application {status.application_id!r} is in state {status.state.value}: {status.error or why}"
    )


def unknown_store(application_id: str, name: str, known: Iterable[str]) -> UnknownStateStoreError:
    """Returns the error for a store that does not exist."""
    return UnknownStateStoreError(
        f"application {application_id!r} has no state store {name!r}; its stores: {', '.join(sorted(known)) or 'none'}"
    )


class ReadSide(Protocol):
    """Questions to one application. Every call may raise

    - UnknownStateStoreError: there is no store of that name;
    - UnknownQueryError: this kind of store does not answer this query;
    - PositionError: the store's sub-topology does not read the topics of the reading's bound;
    - NotUpToBoundError: the store has not reached that bound in time: ask again;
    - TaskNotReadyError: the task that holds the answer restores or moves: ask again;
    - ApplicationStateError: the application does not run.
    """

    @property
    def application_id(self) -> str:
        """``application.id``."""

    @property
    def records(self) -> RecordSide:
        """Questions about the records of topics."""

    @property
    def letters(self) -> LetterSide:
        """Questions about dead letters."""

    @property
    def operations(self) -> OperateSide:
        """Changes to the application."""

    async def status(self) -> ApplicationStatus:
        """State, actors, tasks, placement and lags, as the coordinator knows them."""

    async def program_view(self, generation: int | None = None) -> ProgramView | None:
        """Returns a version of the program as the page shows it, by default the one that stream actors are to run. None
        for a version that does not exist, or not any more."""

    async def history(self, from_ms: int, to_ms: int, tasks: bool, details: bool) -> ApplicationHistory:
        """Returns what the coordinator remembers of these times, in ms since 1970, both included. ``tasks``: with the
        figures of each task; ``details``: with those of operators and topics, and the findings. An hour of both can
        have 4 MB."""

    async def flame(self, actor_id: str, seconds: float) -> Flame | FlameRefused | None:
        """Returns the stacks of a stream actor's process, which it takes for at most ``LONGEST_FLAME_S`` seconds; None
        if there is no such actor. Raises TaskNotReadyError if it does not answer."""

    async def rollout_view(self) -> RolloutView:
        """Returns the last roll-out, with what differs between its versions."""

    async def stores(self) -> Mapping[str, StoreMetadata]:
        """Every store by name."""

    async def store(self, name: str) -> StoreMetadata:
        """Returns one store; asks the coordinator again before it raises UnknownStateStoreError."""

    async def key_serde(self, store: str) -> Serde[Any]:
        """The serde of the store's keys."""

    async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
        """Returns the row that ``query``, a single one of a key, asks for; None when there is none.

        Raises SerializationError when the store's serde refuses the key.
        """

    async def get_many(
        self, store: str, keys: Sequence[Any], reading: Reading | None = None
    ) -> list[StoreEntry | None]:
        """Returns the rows of all ``keys``, in their order, by few calls to each actor; a key may be there twice. They
        are read one after the other, not at one moment."""

    async def page(
        self, store: str, query: RowsQuery, limit: int, cursor: str | None = None, reading: Reading | None = None
    ) -> StoreEntries:
        """Returns at most ``limit`` rows of those that ``query`` asks for, of all partitions in the order of the rows'
        keys; more if tasks have rows of the same key, which are always on one page. ``cursor`` is that of the page
        before; it holds no resource and survives a move of the task, but the pages are not from one moment. Raises
        ValueError for a cursor that no page ever gave.
        """

    async def approximate_num_entries(self, store: str, reading: Reading | None = None) -> int:
        """Returns the approximate number of rows in the store, all partitions together."""


def ends_before_it_begins(serde: Serde[Any], from_key: Any | None, to_key: Any | None) -> bool:
    """Returns True if a range must be empty because its ends are swapped in the order of the serialised keys' bytes;
    None is an open end. Raises SerializationError when the store's key serde refuses one of them, and
    RetriableError when it cannot answer now."""
    if from_key is None or to_key is None:
        return False
    try:
        return serde.serialize(from_key) > serde.serialize(to_key)
    except RetriableError:
        raise
    except Exception as error:  # a serde may raise anything: see Serde
        raise SerializationError(f"serde {serde.name!r} refuses {from_key!r} or {to_key!r}: {error}") from error


def swapped_range_hint(serde: Serde[Any], first: str, last: str) -> str:
    """Returns the error for a range that ends before it begins; its ends as they were written there."""
    negative = ", where a negative number is greater than any that is not" if serde.name in _NUMBERS else ""
    return (
        f"{first} comes after {last}: entries are in the order of the serialised keys' bytes (serde {serde.name!r})"
        f"{negative}; ask for two ranges, one with each end alone, or swap the ends"
    )
