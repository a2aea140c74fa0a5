"""The expected results of live runs are, on one partition, those of Kafka Streams; and each difference is seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import NO_HEADERS, SENT_NOW
from penstock.common.serdes import Serdes
from penstock.state.buffers.buffered_change import BufferedChangeCodec
from tests.live import bunches, own
from tests.live.bunches import Bunch, Case, owners, prefixed
from tests.live.comparable import numbered_anew, without_old_values
from tests.live.comparison import differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.play import Expected, excluded, halves
from tests.live.rig import configuration
from tests.live.shapes import of_shapes, operators_seen, sample
from tests.parity import corpus
from tests.parity.build import SERDES
from tests.parity.fuzz.model import model


def is_another_in_a_bunch(case: Case) -> bool:
    """Returns True for punctuators (in Kafka Streams' driver, records of other sub-topologies move their time, too),
    values with names of topics, nodes or tasks, and buffers bounded in bytes, in which a topic's name counts."""
    functions = {step.get("fn", "").partition(":")[0] for step in case["topology"]}
    reported = functions & {"tick_stream", "ticks", "each_child", "meta"}
    return bool(reported) or any("max_bytes" in step for step in case["topology"])


CASES = [
    case
    for of_shape in of_shapes(corpus.FILES).values()
    for case in of_shape[::5]
    if excluded(case) is None and not is_another_in_a_bunch(case)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_on_one_partition_the_driver_of_partitions_does_what_kafka_streams_did(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bunches, "BASE_MS", 0)
    assert on_one_partition(case) == case["output"]


def on_one_partition(case: Case) -> dict[str, list[dict[str, Any]]]:
    bunch = Bunch("one", case["config"], (case,), False, caching=True)
    config = configuration(bunch, "parity")
    driver = PartitionedDriver(bunch.built.topology, config, 1)
    for record in bunch.inputs(case):
        driver.pipe(record.topic, 0, Written(record.key, record.value, record.timestamp, record.headers))
    return {
        topic.removeprefix(prefixed(case, "")): [_shown(row, key, value) for row in driver.topics[topic][0]]
        for topic, key, value in bunch.built.sinks
    }


def is_one_task(case: Case) -> bool:
    """Returns True if a case is one task: the model has one, the driver one per sub-topology, each with its time."""
    return len(Bunch("one", case["config"], (case,), False).built.topology.subtopologies) == 1


OWN = [
    case
    for shape in ("deduplicate", "ttl")
    for case in own.of_shapes()[shape]
    if f"-{own.SEED}-" in case["name"] and is_one_task(case)
]


@pytest.mark.parametrize("case", OWN, ids=lambda case: case["name"])
def test_features_that_kafka_streams_lacks_agree_with_the_model(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bunches, "BASE_MS", 0)
    assert on_one_partition(case) == model(case)["output"]


def test_an_idle_case_closes_what_is_open_after_each_half() -> None:
    for case in own.of_shapes()["idle"]:
        bunch = Bunch("one", case["config"], (case,), False)
        first, whole = (sum(each.values()) for each in Expected(bunch, "app", [halves(bunch, case)]).written)
        assert 3 <= first <= whole // 2, case["name"]


def test_cases_that_show_the_wall_clock_are_left_out_with_the_reason() -> None:
    by_hand = {case["name"]: excluded(case) for case in of_shapes(corpus.FILES)["by_hand"]}
    reasons = Counter(by_hand.values())
    assert reasons["punctuates by the wall clock"] == 3
    assert reasons["tells the wall clock and offsets in its values"] == 4
    assert by_hand["by_hand-by_hand_begun_late-17"] is not None


def _shown(row: Written, key: str, value: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "key": None if row.key is None else SERDES[key].deserialize(row.key),
        "value": None if row.value is None else SERDES[value].deserialize(row.value),
        "ts": row.timestamp,
    }
    headers = {name: (data or b"").decode() for name, data in row.headers}
    return {**shown, "headers": headers} if headers else shown


def test_names_of_a_bunch_lead_back_to_its_cases() -> None:
    bunch = sample(1, excluded, operators_seen)
    of_case = owners(bunch.built.topology, "app", bunch.cases)
    assert set(of_case.values()) == {case["name"] for case in bunch.cases}
    assert bunch.topics <= of_case.keys()


ROWS = [
    [Written(b"k", b"1", 5, ()), Written(b"j", b"2", 5, ()), Written(b"k", b"3", 6, ())],
    [Written(None, b"", 7, ())],
]


def found(actual: list[list[Written]], headers: bool = True) -> list[str]:
    return list(differences({"t": ROWS}, {"t": actual}, {"t"}, headers))


def test_each_key_keeps_its_order_and_the_order_of_keys_is_open() -> None:
    first, second, third = ROWS[0]
    assert found([[second, first, third], ROWS[1]]) == []
    assert len(found([[third, second, first], ROWS[1]])) == 1
    assert len(found([[first, third], ROWS[1]])) == 1
    assert len(found([[first, second, third, third], ROWS[1]])) == 1
    assert len(found([[], [*ROWS[0], *ROWS[1]]])) == 4, "each key is in its partition"
    assert len(found([])) == 1


def test_the_order_of_what_several_tasks_write_under_a_key_is_open() -> None:
    rows = [Written(b"k", b"%d" % number, number, (), TaskId(0, number)) for number in range(3)]
    assert list(differences({"t": [rows]}, {"t": [rows[::-1]]}, {"t"})) == []
    assert len(list(differences({"t": [rows]}, {"t": [[rows[0], rows[0], rows[2]]]}, {"t"}))) == 1


def test_the_order_does_not_count_where_it_must_not() -> None:
    first, second, third = ROWS[0]
    assert list(differences({"t": ROWS}, {"t": [[third, second, first], ROWS[1]]}, {"t"}, ordered=False)) == []
    assert len(list(differences({"t": ROWS}, {"t": [[third, second], ROWS[1]]}, {"t"}, ordered=False))) == 1


def test_a_record_without_a_key_may_be_in_any_partition() -> None:
    assert found([[*ROWS[0], *ROWS[1]], []]) == []
    assert len(found([ROWS[0], [replace(ROWS[1][0], timestamp=8)]])) == 1


def test_values_times_and_headers_count() -> None:
    first, second, third = ROWS[0]
    for other in (replace(first, value=b"4"), replace(first, timestamp=4)):
        assert len(found([[other, second, third], ROWS[1]])) == 1
        assert len(found([[other, second, third], ROWS[1]], headers=False)) == 1
    headed = replace(first, headers=(("h", b"x"),))
    assert len(found([[headed, second, third], ROWS[1]])) == 1
    assert found([[headed, second, third], ROWS[1]], headers=False) == []


def test_of_changelogs_the_last_row_of_each_key_counts() -> None:
    first, second, third = ROWS[0]

    def last(expected: list[Written], actual: list[Written], by_clock: bool = False) -> int:
        return len(list(last_differences({"t": [expected]}, {"t": [actual]}, {"t"}, by_clock=by_clock)))

    deleted = replace(first, value=None)
    assert last([deleted], [replace(deleted, timestamp=4)]) == 1
    assert last([deleted], [replace(deleted, timestamp=4)], by_clock=True) == 0
    assert last([first], [replace(first, timestamp=4)], by_clock=True) == 1
    assert last([first, second, third], [third, second]) == 0
    assert last([first, second, third], [first, second]) == 1
    assert last([first, second], [first]) == 1
    assert last([first], [first, second]) == 1
    assert last([first, replace(second, value=None)], [first]) == 0
    assert last([first], [first, replace(second, value=None)]) == 0
    assert last([first, replace(second, value=None)], [first, second]) == 1
    assert last([replace(first, timestamp=SENT_NOW)], [first]) == 0


def test_rows_of_join_windows_are_numbered_by_key_and_time_and_null_values_not_at_all() -> None:
    rows = [(b"k-1\0\0\0\x04", b"a"), (b"k-1\0\0\0\x05", None), (b"k-1\0\0\0\x07", b"b"), (b"k-2\0\0\0\x09", b"c")]
    anew = numbered_anew([Written(key, value, 1, NO_HEADERS) for key, value in rows])
    assert [(row.key, row.value) for row in anew] == [
        (b"k-1\0\0\0\x01", b"a"),
        (b"k-1\0\0\0\x02", b"b"),
        (b"k-2\0\0\0\x01", b"c"),
    ]


def test_old_values_in_the_buffer_of_a_suppression_do_not_count_and_new_ones_do() -> None:
    codec = BufferedChangeCodec("compared", Serdes.string())
    source = TopicPartition("in", 0)

    def row(prior: str | None, old: str | None, new: str | None) -> Written:
        return Written(b"k", codec.encode((5, prior, old, new, 7, None, source, 3, None)), -1, NO_HEADERS)

    deletion = Written(b"k", None, -1, NO_HEADERS)
    one, other, same, gone = without_old_values([row("a", "b", "c"), row("a", "b", None), row("a", "a", "c"), deletion])
    assert one == same != other
    assert gone == deletion
