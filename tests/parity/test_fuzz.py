"""Random cases are the same everywhere, can be played, and show a difference in a few lines; without a JVM."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, cast

import orjson
import pytest

from tests.architecture.sources import ROOT
from tests.parity.compare import FIELDS, GIVEN, REFUSED, differing, first_difference, signature
from tests.parity.fuzz.__main__ import reported as summary
from tests.parity.fuzz.generate import generate
from tests.parity.fuzz.known import kafka_streams_own
from tests.parity.fuzz.run import fuzz, numbered
from tests.parity.fuzz.shrink import shrink
from tests.parity.oracle import KafkaStreams
from tests.parity.play import answer
from tests.waiting import PATIENCE_S

SEED = 20261122
CASES = [generate(SEED, number) for number in range(150)]
Case = dict[str, Any]


def played(case: Case) -> Case:
    result: Case = orjson.loads(answer(orjson.dumps(case)))
    return result


def test_the_same_seed_makes_the_same_cases_in_another_process() -> None:
    # Hashes of strings differ from process to process: nothing may come out of the order of a set.
    program = (
        "import orjson, sys\n"
        "from tests.parity.fuzz.generate import generate\n"
        f"sys.stdout.buffer.write(orjson.dumps([generate({SEED}, number) for number in range({len(CASES)})]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == orjson.dumps(CASES)


def test_other_seeds_and_numbers_make_other_cases() -> None:
    topologies = {orjson.dumps(case["topology"]) for case in [*CASES, generate(SEED + 1, 0)]}
    assert len(topologies) > 0.9 * len(CASES)


def test_a_case_has_the_fields_that_a_player_reads_and_no_others() -> None:
    assert all(tuple(case) == GIVEN for case in CASES)


def test_steps_name_only_what_was_made_before_them() -> None:
    for case in CASES:
        made: set[str] = set()
        for step in case["topology"]:
            assert {step[field] for field in ("in", "with") if field in step} <= made, case["name"]
            assert {part["in"] for part in step.get("parts", ())} <= made, case["name"]
            made.update(step.get("ids", [step["id"]] if "id" in step else []))


def test_every_operator_that_the_player_knows_is_made() -> None:
    # More cases than elsewhere: some operators are rare.
    cases = [*CASES, *(generate(SEED, number) for number in range(len(CASES), 3 * len(CASES)))]
    ops = Counter(step["op"] for case in cases for step in case["topology"])
    assert set(ops) == {
        *("stream", "table", "global_table", "versioned_table"),
        *("filter", "filter_not", "map_values", "map", "flat_map", "flat_map_values", "select_key", "peek", "for_each"),
        *("merge", "branch", "repartition", "to_table", "to_stream", "to"),
        *("group_by", "group_by_key", "count", "reduce", "aggregate"),
        *("stream_table", "stream_global", "stream_stream", "table_table", "foreign_key"),
        *("process", "process_values", "print"),
        *("add_source", "add_processor", "add_sink", "add_state_store", "connect"),
        *("add_global_store", "add_read_only_state_store"),
        *("time_window", "sliding_window", "session_window", "unlimited_window", "windowed_to_stream", "cogroup"),
        *("suppress", "transform_values"),
    }
    assert min(ops.values()) >= 3


def test_inputs_have_nulls_headers_wall_clock_and_times_that_fall_back() -> None:
    events = [event for case in CASES for event in case["input"]]
    assert any("advance_wall_ms" in event for event in events)
    assert any(event.get("headers") for event in events)
    assert any(event.get("key", "") is None for event in events)
    assert any(event.get("value", "") is None for event in events)
    times = [[event["ts"] for event in case["input"] if "ts" in event] for case in CASES]
    assert any(sorted(each) != each for each in times)
    assert any(0 in each for each in times)


def test_nearly_every_case_can_be_played_and_most_make_something() -> None:
    answers = [played(case) for case in CASES]
    assert sum("error" in each for each in answers) <= 0.05 * len(CASES)
    assert sum(any(each.get("output", {}).values()) for each in answers) > 0.85 * len(CASES)
    assert sum(any(each.get("internal", {}).values()) for each in answers) > 0.6 * len(CASES)


ANSWER = {
    "output": {"out": [{"key": "k", "value": "v", "ts": 1}]},
    "internal": {"parity-s-changelog": [["6b", "76", 1]]},
    "stores": {"s": [["k", "v"]]},
    "description": "Topologies:\n   Sub-topology: 0\n",
    "metrics": {"dropped-records-total": 0.0},
}
CHANGED = {
    "output": ({"out": [{"key": "k", "value": "v", "ts": 2}]}, "output.out[0].ts: Kafka Streams 1, penstock 2"),
    "internal": ({}, "internal.parity-s-changelog: Kafka Streams [['6b', '76', 1]], penstock 'has none'"),
    "stores": ({"s": []}, "stores.s[0]: Kafka Streams ['k', 'v'], penstock 'has ended'"),
    "description": (
        "Topologies:\n   Sub-topology: 1\n",
        "description[1]: Kafka Streams '   Sub-topology: 0', penstock '   Sub-topology: 1'",
    ),
    "metrics": (
        {"dropped-records-total": 1.0},
        "metrics.dropped-records-total: Kafka Streams 0.0, penstock 1.0",
    ),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_change_in_any_field_is_a_difference_and_is_pointed_at(field: str) -> None:
    value, words = CHANGED[field]
    actual = {**ANSWER, field: value}
    assert differing(ANSWER, copy.deepcopy(ANSWER)) == []
    assert differing(ANSWER, actual) == [field]
    assert first_difference(ANSWER, actual, field) == words


def test_a_refusal_by_one_side_is_a_difference_and_by_both_is_none() -> None:
    refusal, other = {"name": "n", "error": "one way"}, {"name": "n", "error": "another"}
    assert differing(refusal, other) == []
    assert differing(refusal, ANSWER) == differing(ANSWER, refusal) == [REFUSED]
    assert "one way" in first_difference(refusal, ANSWER, REFUSED)


def test_a_refusal_is_known_again_by_its_side_and_its_words_up_to_what_is_particular() -> None:
    refusal = {"name": "n", "error": "TopologyError: there is no store 'store7'"}
    same = {"name": "n", "error": "TopologyError: there is no store 'store2'"}
    empty = {"name": "n", "error": "TopologyError: the topology is empty"}
    assert signature(ANSWER, refusal) == signature(ANSWER, same)
    assert not signature(ANSWER, refusal) & signature(ANSWER, empty)
    assert not signature(ANSWER, refusal) & signature(refusal, ANSWER)


def counts_twice(case: Case) -> bool:
    """A fake difference: some count has caching disabled, and some topic gets a key twice."""
    counted = {step["in"] for step in case["topology"] if step["op"] == "count" and not step.get("caching", True)}
    keys = Counter((event["topic"], event["key"]) for event in case["input"] if event.get("key"))
    return bool(counted) and any(number > 1 for number in keys.values())


def test_a_difference_is_made_small_whatever_surrounds_it() -> None:
    found = [case for number in range(600) if counts_twice(case := generate(SEED, number))][:30]
    assert len(found) >= 10
    for case in found:
        small = shrink(case, counts_twice)
        assert counts_twice(small), case["name"]
        assert [event["ts"] for event in small["input"]] == [0, 0], case["name"]
        assert not any("headers" in event for event in small["input"])
        ops = [step["op"] for step in small["topology"]]
        # A global table may be where the records come in.
        assert ops[-1] in ("count", "global_table"), case["name"]
        assert len(ops) <= 3, case["name"]
        assert small["config"] == {}
        (count,) = [step for step in small["topology"] if step["op"] == "count"]
        assert set(count) <= {"op", "in", "id", "caching"}


def test_the_small_case_is_the_same_each_time_and_the_found_one_is_left_alone() -> None:
    case = next(case for number in range(600) if counts_twice(case := generate(SEED, number)))
    before = copy.deepcopy(case)
    assert shrink(case, counts_twice) == shrink(case, counts_twice)
    assert case == before


def test_a_case_that_is_small_already_stays() -> None:
    case = shrink(CASES[0], lambda tried: True)
    assert case["topology"] == case["input"] == []
    assert shrink(case, lambda tried: True) == case


class FakeKafkaStreams:
    """Answers as penstock does, except for cases of these names that have the fake difference."""

    def __init__(self, wrong: Collection[str]) -> None:
        self.wrong = wrong
        self.asked: list[str] = []

    def play(self, cases: Sequence[Case]) -> Iterator[Case]:
        for case in cases:
            self.asked.append(case["name"])
            result = played(case)
            differs = case["name"] in self.wrong and counts_twice(case) and "error" not in result
            yield {**result, "output": {"more": []}} if differs else result


def test_every_case_of_a_seed_is_played_once_and_differences_are_reported_minimised() -> None:
    cases = [generate(SEED, number) for number in range(120)]
    wrong = [case["name"] for case in cases if counts_twice(case) and "error" not in played(case)][:2]
    assert len(wrong) == 2
    oracle, reported = FakeKafkaStreams(wrong), list[str]()
    report = fuzz(cast(KafkaStreams, oracle), islice(numbered(SEED), len(cases)), 600, reported.append)
    assert report.cases == len(cases)
    assert set(oracle.asked) == {case["name"] for case in cases}
    assert [difference.found for difference in report.differences] == wrong
    for difference in report.differences:
        assert difference.fields == ["output"]
        assert len(difference.case["topology"]) <= 6
        assert len(difference.case["input"]) == 2
        assert difference.case["output"] == {"more": []}
    assert [line.split()[0] for line in reported] == wrong


TICKS: list[dict[str, Any]] = [
    {"op": "stream", "topic": "in", "id": "stream"},
    {"op": "process", "fn": "tick_stream:10", "in": "stream", "id": "ticks"},
    {"op": "group_by_key", "in": "ticks", "id": "grouped"},
    {"op": "count", "in": "grouped", "id": "counts"},
]
SUPPRESSED: list[dict[str, Any]] = [*TICKS, {"op": "suppress", "wait_ms": 10, "in": "counts", "id": "held"}]
JOINED = [*TICKS, {"op": "foreign_key", "kind": "left", "fn": "value", "in": "counts", "with": "counts", "id": "join"}]
NO_TOPIC = (
    'ProcessorStateException: Cannot invoke "String.getBytes(java.nio.charset.Charset)" because "this.topic" is null'
)
SLIDING: list[dict[str, Any]] = [{"op": "sliding_window", "in": "grouped", "size_ms": 10, "grace_ms": 5, "id": "cut"}]
SLIDING_TOGETHER: list[dict[str, Any]] = [
    {"op": "cogroup", "parts": [], "window": {"op": "sliding_window"}, "id": "together"}
]
NO_VALUE = 'Cannot invoke "org.apache.kafka.streams.state.ValueAndTimestamp.value()" because "next.value" is null'
NO_PARTITION = "StreamsException: Invalid partition: -1. Partition number should always be non-negative or null."


@pytest.mark.parametrize(
    ("steps", "words", "known"),
    [
        (SUPPRESSED, NO_TOPIC, True),
        ([step for step in SUPPRESSED if step["op"] != "process"], NO_TOPIC, False),
        (SUPPRESSED, NO_PARTITION, False),
        (JOINED, NO_PARTITION, True),
        (JOINED, NO_TOPIC, False),
        (JOINED, "NullPointerException: null", False),
        (SLIDING, NO_VALUE, True),
        (SLIDING_TOGETHER, NO_VALUE, True),
        (JOINED, NO_VALUE, False),
    ],
)
def test_an_error_of_kafka_streams_own_is_counted_apart_where_its_cause_is_there(
    steps: list[dict[str, Any]], words: str, known: bool
) -> None:
    case, refusal = {"name": "n", "config": {}, "topology": steps, "input": []}, {"name": "n", "error": words}
    assert (kafka_streams_own(case, refusal, ANSWER) is not None) == known
    assert kafka_streams_own(case, refusal, refusal) is None
    assert kafka_streams_own(case, ANSWER, refusal) is None


@pytest.mark.parametrize(("words", "known"), [(NO_TOPIC, 1), ("NullPointerException: null", 0)])
def test_a_run_distinguishes_such_errors_from_differences(words: str, known: int) -> None:
    class Refuses:
        def play(self, cases: Sequence[Case]) -> Iterator[Case]:
            return iter([{"name": "n", "error": words} for _ in cases])

    case = {"name": "n", "config": {}, "topology": SUPPRESSED, "input": []}
    assert "error" not in played(case)
    report = fuzz(cast(KafkaStreams, Refuses()), iter([case]), 600, lambda reported: None)
    assert (report.known.total(), len(report.differences)) == (known, 1 - known)
    assert ("Kafka Streams' own: 1 times" in summary(report)) == bool(known)


def test_a_case_that_is_too_large_for_the_jvm_is_not_played_on_penstock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overflows:
        def play(self, cases: Sequence[Case]) -> Iterator[Case]:
            for case in cases:
                yield {"name": case["name"], "error": "OutOfMemoryError: Java heap space"}

    monkeypatch.setattr("tests.parity.fuzz.run.on_penstock", lambda case: pytest.fail("it was played"))
    report = fuzz(cast(KafkaStreams, Overflows()), islice(numbered(SEED), 3), 600, lambda reported: None)
    assert (report.cases, report.too_large, report.differences) == (0, 3, [])
    assert "3 cases more are too large" in summary(report)
