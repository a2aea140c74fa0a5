"""Mistakes of a store of one's own are reported, with the store's name: by the driver, and by every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.common.errors import RuleBrokenError, StateStoreError, TopologyError

STRING = ps.Serdes.string()


class Rows(ps.StateStore):
    """Keeps what it is given, as bytes."""

    def __init__(self, name: str, context: ps.StateStoreContext) -> None:
        super().__init__(name, context)
        self.changed: dict[Any, Any] = {}

    def view(self) -> Any:
        return self

    def put(self, key: str, value: str) -> None:
        self.changed[key.encode()] = value.encode()

    @property
    def has_changes(self) -> bool:
        return bool(self.changed)

    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        changed, self.changed = self.changed, {}
        for key, row in changed.items():
            batch.put(self.name, key, row)
            assert self.context.log is not None
            self.context.log(key, row, 0)
        yield

    def batch_written(self) -> None:
        pass


@dataclass(frozen=True)
class RowsBuilder(ps.StoreBuilder[str, str]):
    kind: ClassVar[str] = "rows"
    opened: Callable[[str, ps.StateStoreContext], Any] = Rows

    def open(self, context: ps.StateStoreContext) -> ps.StateStore:
        opened: ps.StateStore = self.opened(self.name, context)
        return opened


class Put(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("own")

    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(record.key, record.value)


def play(opened: Callable[[str, ps.StateStoreContext], Any], logging: bool = True) -> None:
    builder = ps.StreamsBuilder()
    builder.add_state_store(RowsBuilder("own", STRING, STRING, opened=opened, logging=logging))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Put, "own")
    with ps.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")


def test_one_that_does_what_it_should_is_left_alone() -> None:
    play(Rows)


class Unlogged(Rows):
    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        changed, self.changed = self.changed, {}
        for key, row in changed.items():
            batch.put(self.name, key, row)
        yield


def test_a_row_that_is_not_in_the_changelog_is_an_error_but_for_a_store_without_one() -> None:
    with pytest.raises(
        RuleBrokenError, match=r"store own: it changed the row of key b'a' .* wrote nothing to its chang"
    ):
        play(Unlogged)
    play(Unlogged, logging=False)


class LoggedOtherwise(Rows):
    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        yield from super().flush(batch)
        assert self.context.log is not None
        self.context.log(b"a", b"other", 0)


def test_a_row_of_which_the_changelog_holds_another_form_is_an_error() -> None:
    with pytest.raises(RuleBrokenError, match="store own: under key b'a' it put b'x' and wrote b'other'"):
        play(LoggedOtherwise)


class RestoredOtherwise(LoggedOtherwise):
    def restore(self, *arguments: Any) -> None:
        raise NotImplementedError


def test_a_store_that_restores_in_a_way_of_its_own_may_log_what_it_likes() -> None:
    play(RestoredOtherwise)


class LoggedOnly(Rows):
    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        changed, self.changed = self.changed, {}
        assert self.context.log is not None
        for key, row in changed.items():
            self.context.log(key, row, 0)
        yield


def test_a_changelog_record_without_its_row_is_an_error() -> None:
    with pytest.raises(RuleBrokenError, match="store own: it wrote key b'a' to its changelog, and changed no row"):
        play(LoggedOnly)


class Texts(Rows):
    def put(self, key: str, value: str) -> None:
        self.changed[key] = value


def test_a_key_or_row_that_is_not_bytes_is_an_error() -> None:
    with pytest.raises(RuleBrokenError, match=r"store own: batch.put was given 'a' \(str\)"):
        play(Texts)


class Flushless(Rows):
    def flush(self, batch: ps.CommitBatch) -> Any:
        self.changed = {}


class Listed(Rows):
    def flush(self, batch: ps.CommitBatch) -> Any:
        return list(super().flush(batch))


@pytest.mark.parametrize("opened", [Flushless, Listed])
def test_a_flush_that_is_no_generator_is_named(opened: Any) -> None:
    with pytest.raises(StateStoreError, match=rf"store own: {opened.__name__}.flush\(\) returned .* not an iterator"):
        play(opened)


class Endless(Rows):
    @property
    def has_changes(self) -> bool:
        return True


def test_a_store_that_is_never_flushed_does_not_hang_the_commit() -> None:
    with pytest.raises(StateStoreError, match="task 0_0: store own still has changes after 1000 flushes"):
        play(Endless)


class Unfrozen(Rows):
    takes_changes_while_committed = True


class Blind(Rows):
    def view(self) -> Any:
        return None


def nothing(name: str, context: ps.StateStoreContext) -> None:
    return None


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        (Unfrozen, "store own: Unfrozen says takes_changes_while_committed, but has no freeze"),
        (Blind, r"store own: Blind.view\(\) returned None"),
        (nothing, r"store own: RowsBuilder.open\(\) returned None, not a StateStore"),
    ],
)
def test_the_builder_and_the_view_of_a_store_are_checked_when_the_task_is_made(opened: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        play(opened)
