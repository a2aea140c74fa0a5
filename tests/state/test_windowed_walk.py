"""Long lives of window and session stores, drawn from a seed: many more rows than the model test's examples have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.state.windowed.queries import SessionQuery, WindowKeyQuery, WindowRangeQuery
from tests.state.windowed_model import Shape, until
from tests.state.windowed_rig import Rig

HOUR = 3_600_000
EVER = 1 << 62
KEYS = ("a", "a\0", "a\0b", "ab", "b", "\0", "é")
SHAPES = [
    Shape(HOUR),
    Shape(HOUR, caching=True),
    Shape(200_001, caching=True, timestamped=True),
    Shape(30_000, timestamped=True),
    Shape(HOUR, retain_duplicates=True),
    Shape(HOUR, sessions=True),
    Shape(200_001, caching=True, sessions=True),
]


class Walk:
    """``random`` decides what happens to the store of ``rig``."""

    def __init__(self, rig: Rig, random: Random) -> None:
        self.rig = rig
        self.random = random
        self.now = 0
        self.step_ms = max(rig.shape.retention_ms // 4, 15_000)
        self.open: list[tuple[Iterator[Any], list[Any]]] = []

    def time(self) -> int:
        return max(self.now + self.random.randint(-6, 1) * self.step_ms + self.random.randint(-1, 1), 0)

    def times(self) -> tuple[int, int]:
        return self.random.choice([(0, EVER), (self.time(), self.time()), (self.time(), EVER)])

    def key(self) -> str:
        return self.random.choice(KEYS)

    def bound(self) -> str | None:
        return self.random.choice((None, *KEYS))

    def change(self) -> None:
        for _ in range(self.random.randint(1, 15)):
            self.change_one()

    def change_one(self) -> None:
        rig, random = self.rig, self.random
        self.now += random.choice((0, 0, 0, 1, self.step_ms // 3))
        start, end = sorted((self.time(), self.time()))
        if rig.shape.sessions and random.random() < 0.2:
            there = rig.model.of_key(self.key(), 0, EVER)
            row = random.choice(there)[0] if there else None
            rig.remove(*((row.key, row.time, row.rest) if row else (self.key(), end, start)), timestamp=self.now)
        else:
            value = random.choice(("x", "y", "zz", None))
            rig.put(self.key(), end, start, value, timestamp=self.now)

    def commit(self, refused: bool = False) -> None:
        beside = self.random.choice((0, 0, 3, 30))
        if beside and self.random.random() < 0.3:
            self.now += 3 * self.step_ms
        self.rig.commit(refused, [self.change_one] * beside)

    def end_of_task(self) -> None:
        self.open.clear()
        if self.random.random() < 0.5:
            self.commit(refused=True)
        else:
            self.rig.crash(self.random.randint(1, 40), self.random.random() < 0.3, gathered=self.random.random() < 0.5)

    def make_room(self) -> None:
        self.rig.store.drop_unused()

    def look(self, found: Iterator[Any], expected: list[Any]) -> None:
        if self.random.random() < 0.3:
            self.open.append((found, expected))
        else:
            assert list(found) == expected

    def look_again(self) -> None:
        for found, expected in self.open:
            assert list(found) == expected, "iterators see the store as it was when they were made"
        self.open.clear()

    def read(self) -> None:
        rig, model, view = self.rig, self.rig.model, self.rig.view
        backward = self.random.random() < 0.5
        key, bounds, (begin, end) = self.key(), (self.bound(), self.bound()), self.times()
        direction = -1 if backward else 1

        def method(name: str) -> Any:
            return getattr(view, f"backward_{name}" if backward else name)

        if rig.shape.sessions:
            expected = rig.windowed(until(end, model.of_key(key, begin, EVER)))[::direction]
            self.look(method("find_sessions")(key, begin, end), expected)
            expected = rig.windowed(until(end, model.of_keys(*bounds, begin, EVER)))[::direction]
            self.look(method("find_sessions")(*bounds, begin, end), expected)
            return
        found = [(row.time, rig.value(put)) for row, put in model.of_key(key, begin, end)]
        self.look(method("fetch")(key, begin, end), found[::direction])
        self.look(method("fetch")(*bounds, begin, end), rig.windowed(model.of_keys(*bounds, begin, end))[::direction])
        self.look(method("fetch_all")(begin, end), rig.windowed(model.of_keys(None, None, begin, end))[::direction])
        if not rig.shape.retain_duplicates:
            for start, value in found:
                assert view.fetch(key, start) == value

    def ask(self) -> None:
        rig, page, committed = self.rig, self.random.randint(1, 5), self.random.random() < 0.5
        key, times = self.key(), self.times()
        if rig.shape.sessions:
            expected = rig.query_rows(rig.model.of_key(key, 0, EVER, committed))
            assert rig.answers(SessionQuery(key.encode()), page, committed) == expected
            return
        expected = rig.query_rows(rig.model.of_key(key, *times, committed))
        assert rig.answers(WindowKeyQuery(key.encode(), *times), page, committed) == expected
        expected = rig.query_rows(rig.model.by_changelog_key(None, None, *times, committed))
        assert rig.answers(WindowRangeQuery(*times), page, committed) == expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("on_disk", [True, False], ids=["rocksdb", "memory"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_store_agrees_with_its_model_all_its_life(shape: Shape, on_disk: bool, seed: int, tmp_path: Path) -> None:
    print("seed", seed)
    rig = Rig(shape, tmp_path if on_disk else None)
    walk = Walk(rig, Random(f"{shape} {seed}"))
    steps = [walk.change, walk.read, walk.ask, walk.commit, walk.end_of_task, walk.look_again, walk.make_room]
    for _ in range(150):
        walk.random.choices(steps, weights=(8, 6, 4, 4, 1, 3, 1))[0]()
        rig.check_everything()
    rig.check_written()
    assert len(rig.changelog) > 100
    assert rig.dropped > 0
    rig.close()
