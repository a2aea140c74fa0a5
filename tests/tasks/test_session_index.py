"""The sessions that an aggregate keeps at hand are those of the store, whatever memory takes from it meanwhile."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.common.windows import Window
from penstock.state.windowed import session_index
from penstock.state.windowed.session_store import SessionStateStore
from tests.tasks.bench import STRINGS, Bench

GAP, GRACE = 5, 10_000
COMMIT, DROP, OPEN_ANEW = "commit", "drop", "open anew"

Step = tuple[str, int] | str
"""A record's key, and how far it lies from the latest of all; or what happens between records."""
RECORDS = st.tuples(st.sampled_from("abc"), st.integers(-60, 12))
STEPS = st.lists(RECORDS | RECORDS | RECORDS | st.sampled_from([COMMIT, DROP, DROP, OPEN_ANEW]), max_size=60)


def counting(how: ps.Materialized[Any, Any]) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(GAP, GRACE)
    builder.stream("in", STRINGS).group_by_key().windowed_by(windows).count(how)
    return builder


def sessions_of(records: list[tuple[str, int]]) -> dict[tuple[str, Window], int]:
    """By brute force: what lies no further apart than the gap belongs together."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for key, time in records:
        times[key].append(time)
    found: dict[tuple[str, Window], int] = {}
    for key, ordered in times.items():
        ordered.sort()
        first = 0
        for at, time in enumerate(ordered):
            if at + 1 == len(ordered) or ordered[at + 1] > time + GAP:
                found[key, Window(ordered[first], time)] = at + 1 - first
                first = at + 1
    return found


@pytest.mark.parametrize("how", [ps.Materialized.as_("s"), ps.Materialized.as_("s").with_caching_disabled()])
@pytest.mark.parametrize("kept_bytes", [0, session_index._KEPT_BYTES], ids=["tight", "roomy"])
@given(steps=STEPS)
def test_the_sessions_are_those_that_all_records_make(how: Any, kept_bytes: int, steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session_index, "_KEPT_BYTES", kept_bytes)
        patched.setattr(session_index, "_PRUNED", 2)
        bench = Bench(counting(how))
        latest, records = 100, list[tuple[str, int]]()
        for step in steps:
            store = bench.state_manager.store("s")
            assert isinstance(store, SessionStateStore)
            match step:
                case (key, distance):
                    time = max(latest + distance, 0)
                    latest = max(latest, time)
                    records.append((key, time))
                    bench.feed("in", (key, "", time))
                case "commit":
                    bench.commit()
                case "drop":
                    store.drop_unused()
                case "open anew":
                    bench.commit()
                    bench = Bench(counting(how), stores=bench.stores)
        store = bench.state_manager.store("s")
        assert isinstance(store, SessionStateStore)
        found = {(key, window): count for key in "abc" for (_, window), count in store.view().fetch(key)}
    assert found == sessions_of(records)


@given(
    ends=st.lists(st.integers(1, 12), unique=True, max_size=5),
    lengths=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    earliest_end=st.integers(1, 14),
    latest_start=st.integers(0, 14),
)
def test_near_are_those_in_reach_also_where_the_last_one_has_expired(
    ends: list[int], lengths: list[int], earliest_end: int, latest_start: int
) -> None:
    sessions = [(end, max(0, end - length)) for end, length in zip(sorted(ends), lengths, strict=False)]
    found = session_index.near([(0, 0), *sessions], earliest_end, latest_start)
    assert found == [each for each in sessions if each[0] >= earliest_end and each[1] <= latest_start]
