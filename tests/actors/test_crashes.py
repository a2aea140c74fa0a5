"""After crashes of an actor, its windows and joins end with the results of a run without crashes, at least once each.

Aggregates are sets, to which a record that comes again adds nothing, and no window emits before it has closed: updates
on the way there may differ where changelogs are ahead of the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.tasks import context
from tests.actors.crashed import Crashing, Rows, strings
from tests.actors.rig import STRING, producer_of, settle
from tests.actors.test_changelog_ahead import as_text

OUT: Any = ps.Produced.with_(STRING, STRING)
SPAN, GRACE = timedelta(seconds=5), timedelta(seconds=20)


def union(key: str, *parts: str) -> str:
    return ",".join(sorted({value for part in parts for value in part.split(",")} - {""}))


def kept(caching: bool) -> Any:
    store: Any = ps.Materialized.as_("counts").with_key_serde(STRING).with_value_serde(STRING)
    return store.with_caching_enabled() if caching else store.with_caching_disabled()


def closed_windows(kind: str, caching: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", strings()).group_by_key()
    close = ps.EmitStrategy.on_window_close()
    if kind == "session":
        sessions = grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(SPAN, GRACE))
        table: Any = sessions.emit_strategy(close).aggregate(str, union, union, kept(caching))
    elif kind == "sliding":
        sliding = grouped.windowed_by(ps.SlidingWindows.of_time_difference_and_grace(SPAN, GRACE))
        table = sliding.emit_strategy(close).aggregate(str, union, kept(caching))
    else:
        time = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(SPAN, GRACE))
        table = time.emit_strategy(close).aggregate(str, union, kept(caching))
    table.to_stream(as_text).to("out", OUT)
    return builder.build()


def suppressed_windows(caching: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_and_grace(SPAN, GRACE)
    table: Any = builder.stream("in", strings()).group_by_key().windowed_by(windows)
    table = table.aggregate(str, union, kept(caching))
    until = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())
    table.suppress(until).to_stream(as_text).to("out", OUT)
    return builder.build()


def joined_streams(caching: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    left, right = builder.stream("in", strings()), builder.stream("other", strings())
    within = ps.JoinWindows.of_time_difference_and_grace(SPAN, timedelta(seconds=1))
    how = ps.StreamJoined.with_(STRING, STRING, STRING)
    left.outer_join(right, lambda one, other: f"{one}+{other}", within, how).to("out", OUT)
    return builder.build()


SHAPES: dict[str, Callable[[bool], ps.Topology]] = {
    "time": lambda caching: closed_windows("time", caching),
    "sliding": lambda caching: closed_windows("sliding", caching),
    "session": lambda caching: closed_windows("session", caching),
    "suppressed": suppressed_windows,
    "joined": joined_streams,
}


def records(shape: str, random: Random) -> Rows:
    rows: Rows = []
    now = 10**6
    for number in range(80):
        now += random.choice([1, 100, 1000, 3000]) if random.random() < 0.97 else 100_000
        late = random.randrange(8000) if shape != "joined" and random.random() < 0.3 else 0
        topic = random.choice(["in", "other"]) if shape == "joined" else "in"
        rows.append((topic, f"k{random.randrange(3)}", f"v{number}", now - late))
    return rows


class Played:
    """One actor after the other, until all records are processed and committed."""

    def __init__(self, state_dir: Path, topology: ps.Topology, random: Random | None) -> None:
        """``random``: nothing happens to the actors without it."""
        self.rig = Crashing(state_dir, topology, commit_interval_ms=100)
        self.random = random
        self.epoch = 0
        self.loop = self.begin()

    def begin(self) -> StreamLoop:
        self.epoch += 1
        return self.rig.running(epoch=self.epoch)

    def play(self, rows: Rows) -> set[tuple[str, str | None]]:
        for row in rows:
            self.rig.send([row])
            if self.random is None:
                settle(self.loop)
            else:
                self.happen(self.random)
        for end in (10**10, 2 * 10**10):
            for topic in sorted({row[0] for row in rows}):
                self.rig.send([(topic, "end", "end", end)])
            self.rig.commit(self.loop)
        self.loop._finish("the end")
        return {result for result in self.rig.results() if not result[0].startswith("end")}

    def happen(self, random: Random) -> None:
        for _ in range(random.choice([0, 1, 3, 10])):
            self.loop.step()
        what = random.random()
        if what < 0.15:
            self.rig.clock.now_ms += 101
        elif what < 0.2:
            self.loop._finish("killed")
            self.loop = self.begin()
        elif what < 0.24:
            self.rig.coordinator.refusal = "another has the task"
            self.rig.commit(self.loop)
            self.rig.coordinator.refusal = ""
            self.loop._finish("replaced")
            self.loop = self.begin()
        elif what < 0.3:
            self.stick(random)

    def stick(self, random: Random) -> None:
        """From now on nothing that the producer is given is delivered, until its time is up."""
        settle(self.loop)
        producer = producer_of(self.loop)
        producer.most_at_once = 0
        self.rig.clock.now_ms += random.choice([1, 101])
        for _ in range(random.choice([1, 3, 10])):
            self.loop.step()
        producer.expire()
        producer.most_at_once = None  # it may have had nothing to deliver
        settle(self.loop)
        assert not self.loop.finished.done(), self.loop.finished.result()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_in_the_end_all_is_as_without_a_crash(
    shape: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "EMIT_INTERVAL_MS", 0)
    print(f"seed {seed}")
    topology, rows = SHAPES[shape](seed % 2 == 1), records(shape, Random(f"records {shape} {seed}"))
    expected = Played(tmp_path / "whole", topology, None).play(rows)
    assert len(expected) >= 5
    assert Played(tmp_path / "crashing", topology, Random(f"faults {shape} {seed}")).play(rows) == expected
