"""Each row of each file becomes one record, in the order of its file, whatever is killed, and when."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.pipeline.ingest import lane, plan, reading
from penstock.pipeline.ingest.downloads import Downloads
from tests.pipeline.ingest.mortal import Calls, Killed, mortal
from tests.pipeline.ingest.rig import Rig, write_json_lines
from tests.tiers import examples, sampled


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads five rows at a time, commits after each, and has three lanes."""
    monkeypatch.setattr(reading, "AT_ONCE", 5)
    monkeypatch.setattr(lane, "_COMMIT_EACH_S", -1.0)
    monkeypatch.setattr(plan, "LANES", 3)


def fill(rig: Rig, sizes: list[int]) -> None:
    """Write files of these numbers of rows."""
    for number, size in enumerate(sizes):
        rows = [{"key": f"k{row % 7}", "file": number, "row": row} for row in range(size)]
        write_json_lines(rig.folder / f"{number}.jsonl", rows)


def ingest(rig: Rig, calls: Calls | None = None) -> int:
    """Run the ingest in a process of its own; returns the number of records that it has written."""
    clients = rig.clients if calls is None else mortal(rig.clients, calls)
    return rig.ingest(clients=clients, key_column="key").records


def killed(rig: Rig, at: int, afterwards: bool = False) -> bool:
    """Run the ingest in a process that is killed at a call; returns False if it ended before."""
    try:
        ingest(rig, Calls(at, afterwards=afterwards))
    except Killed:
        return True
    return False


def require_each_once_and_in_order(rig: Rig, sizes: list[int]) -> None:
    found = [value for value in rig.values() if isinstance(value, dict)]
    counts = Counter((value["file"], value["row"]) for value in found)
    assert counts == {(number, row): 1 for number, size in enumerate(sizes) for row in range(size)}
    of_partition: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for value in found:  # keys stay in one partition
        of_partition[value["key"], value["file"]].append(value["row"])
    assert all(rows == sorted(rows) for rows in of_partition.values())


STEP = 8
"""Of the calls at which an ingest is interrupted, each test takes each eighth; ``make test`` takes the first eighth."""


@pytest.mark.parametrize("afterwards", [False, True])
@pytest.mark.parametrize("at", sampled(range(1, STEP + 1), STEP))
def test_the_ingest_is_killed_at_each_call_in_turn_and_each_row_is_written_once(
    tmp_path: Path, at: int, afterwards: bool
) -> None:
    sizes = [12, 7, 0, 1]
    died = True
    while died:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            rig = Rig(Path(folder))
            fill(rig, sizes)
            died = killed(rig, at, afterwards)
            ingest(rig)
            require_each_once_and_in_order(rig, sizes)
            assert ingest(rig) == 0
        at += STEP
    assert at > 50


@settings(max_examples=examples(25))
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    more=st.lists(st.integers(0, 20), max_size=3),
    kills=st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=6),
)
def test_any_series_of_kills_and_new_files_ends_with_each_row_once(
    sizes: list[int], more: list[int], kills: list[tuple[int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder))
        fill(rig, sizes)
        for number, (at, afterwards) in enumerate(kills):
            killed(rig, at, afterwards)
            if number == len(kills) // 2:
                fill(rig, [*sizes, *more])
        fill(rig, [*sizes, *more])
        ingest(rig)
        require_each_once_and_in_order(rig, [*sizes, *more])


@pytest.mark.parametrize("at", sampled(range(1, STEP + 1), STEP))
def test_a_second_run_that_begins_while_the_first_one_writes_ends_it_at_any_call(tmp_path: Path, at: int) -> None:
    sizes = [12, 7]
    interrupted = True
    while interrupted:
        interrupted = False
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            rig = Rig(Path(folder))
            fill(rig, sizes)

            def second(rig: Rig = rig) -> None:
                nonlocal interrupted
                interrupted = True
                ingest(rig)

            try:
                ingest(rig, Calls(at, second))
            except StreamsError as error:
                assert "another run" in str(error) or "fenced" in str(error)  # noqa: PT017
            require_each_once_and_in_order(rig, sizes)
        at += STEP
    assert at > 30


def test_brokers_that_are_away_for_a_while_cost_time_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig, [40])

    def cut() -> None:
        rig.broker.down = True

    def back() -> None:
        rig.broker.down = False

    rig.on_wait = back
    assert ingest(rig, Calls(20, cut, of="transactional_producer.send")) == 40
    assert rig.waited
    require_each_once_and_in_order(rig, [40])


def test_a_transaction_that_the_broker_has_aborted_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "_COMMIT_EACH_S", 3600.0)
    rig = Rig(tmp_path)
    fill(rig, [40])
    assert (
        ingest(rig, Calls(3, rig.broker.expire_transactions, of="transactional_producer.poll", afterwards=True)) == 40
    )
    assert rig.waited
    require_each_once_and_in_order(rig, [40])


def test_a_commit_whose_answer_is_lost_is_not_repeated(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig, [40])

    def lose() -> None:
        rig.broker.loses_answers = True

    def answer() -> None:
        rig.broker.loses_answers = False

    rig.on_wait = answer
    assert ingest(rig, Calls(20, lose, of="transactional_producer.send")) == 40
    assert rig.waited
    require_each_once_and_in_order(rig, [40])


def test_brokers_that_stay_away_end_the_run_and_the_next_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    fill(rig, [40])
    monkeypatch.setattr(lane, "_PATIENCE_S", -1.0)

    def cut() -> None:
        rig.broker.down = True

    with pytest.raises(BrokerUnreachableError):
        ingest(rig, Calls(20, cut, of="transactional_producer.send"))
    rig.broker.down = False
    ingest(rig)
    require_each_once_and_in_order(rig, [40])


def test_a_lane_that_begins_again_fetches_only_files_that_are_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "LANES", 1)
    fetched: list[str] = []

    class Counted(Downloads):
        def _fetch(self, name: str) -> Path:
            fetched.append(name)
            return super()._fetch(name)

        def is_ready(self) -> bool:
            return False  # each download takes its time, so that the lane commits before it

    monkeypatch.setattr(lane, "Downloads", Counted)
    rig = Rig(tmp_path)
    fill(rig, [5, 5, 5, 40])

    def cut() -> None:
        rig.broker.down = True

    def back() -> None:
        rig.broker.down = False

    rig.on_wait = back
    assert ingest(rig, Calls(30, cut, of="transactional_producer.send")) == 55
    assert fetched == ["0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl", "3.jsonl"]
    require_each_once_and_in_order(rig, [5, 5, 5, 40])
