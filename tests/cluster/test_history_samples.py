"""The samples of an application's last hour: rates, gaps, and the space that they need."""

from __future__ import annotations

import gc
import math
import pickle
import sys
from array import array
from dataclasses import replace
from enum import Enum
from types import BuiltinFunctionType, FunctionType

import pytest

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.application_history import (
    BUSY_STEPS,
    BUSY_UNKNOWN,
    FINEST_STEP_MS,
    HOUR_MS,
    NO_ACTOR,
    TASK_STATES,
    EventKind,
    EventLevel,
    HistoryEvent,
    Sample,
    Totals,
)
from penstock.cluster.findings import Finding, Level
from penstock.cluster.history.event_list import EventList
from penstock.cluster.history.flows import MOST_NAMES
from penstock.cluster.history.samples import MOST_FLOW_LISTS, MOST_TASK_LISTS, Samples, merged, step_for
from penstock.cluster.history.sampling import LONGEST_FINDING, Sampling
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, TASK, TOPIC

ONE, TWO = TaskId(0, 0), TaskId(0, 1)
PARTITION = TopicPartition("lines", 0)


def actor(name: str, running_s: float, *tasks: TaskStatus, commits: int = 0) -> ActorStatus:
    return ActorStatus(name, "node", 1, 1, tasks, commits=commits, running_s=running_s)


def task(task_id: TaskId, records: int, busy_s: float = 0.0, **more: object) -> TaskStatus:
    return TaskStatus(task_id, TaskState.RUNNING, records, busy_s=busy_s, **more)  # type: ignore[arg-type]


def status(*actors: ActorStatus, **more: object) -> ApplicationStatus:
    placement = {it.task_id: each.actor_id for each in actors for it in each.tasks}
    return ApplicationStatus("app", ApplicationState.RUNNING, 1, actors, placement, **more)  # type: ignore[arg-type]


def taken(*statuses: ApplicationStatus, tasks: tuple[TaskId, ...] = (ONE, TWO)) -> Sample:
    """Returns the last of the samples of these statuses."""
    sampling = Sampling()
    for each in statuses:
        found = sampling.take(each, tasks, 0)
    return found


def totals(sample: Sample) -> Totals:
    return Totals(*sample.totals)


def test_rates_are_those_since_the_sample_before_by_the_clock_of_the_actor() -> None:
    before = status(actor("stream/1", 100.0, task(ONE, 1000, 2.0), commits=10))
    now = status(actor("stream/1", 104.0, task(ONE, 1400, 5.0, behind_s=2.5, lags={PARTITION: 7}), commits=12))
    found = taken(before, now)
    assert found.tasks == (ONE, TWO)
    assert found.records_per_s[0] == 100.0
    assert found.busy[0] == round(0.75 * BUSY_STEPS)
    assert (found.actors, found.actor[0]) == (("stream/1",), 0)
    assert totals(found)[:4] == (100.0, 7.0, 2.5, 0.5)


def test_a_first_sample_has_no_rates_for_a_task_may_have_run_for_days() -> None:
    found = taken(status(actor("stream/1", 90_000.0, task(ONE, 10**9))))
    assert math.isnan(found.records_per_s[0])
    assert found.busy[0] == BUSY_UNKNOWN
    assert math.isnan(totals(found).records_per_s)


def test_the_counts_of_a_task_that_moves_or_begins_again_give_no_negative_rate() -> None:
    before = status(actor("stream/1", 10.0, task(ONE, 500)), actor("stream/2", 10.0, task(TWO, 500)))
    now = status(actor("stream/1", 15.0), actor("stream/2", 15.0, task(TWO, 50), task(ONE, 100)))
    found = taken(before, now)
    assert list(found.records_per_s) == [20.0, 10.0]
    assert list(found.actor) == [0, 0]


def test_figures_of_a_silent_actor_and_of_a_task_that_no_actor_has_are_gaps() -> None:
    first = actor("stream/1", 10.0, task(ONE, 500, behind_s=1.0))
    found = taken(status(first), status(first, silent=frozenset({"stream/1"}), unhosted={TWO: "waits"}))
    assert all(math.isnan(value) for value in [*found.records_per_s, *found.behind_s])
    assert list(found.actor) == [0, NO_ACTOR]
    assert all(math.isnan(value) for value in totals(found)[:4])


def test_what_is_not_known_of_one_task_does_not_hide_the_others() -> None:
    first, second = actor("stream/1", 10.0, task(ONE, 500)), actor("stream/2", 10.0, task(TWO, 0))
    later = actor("stream/1", 15.0, task(ONE, 600, behind_s=3.0)), actor("stream/2", 15.0, task(TWO, 9, behind_s=8.0))
    found = taken(status(first), status(*later))
    assert math.isnan(found.records_per_s[1]), "it was never seen"
    assert totals(found)[:3] == (20.0, 0.0, 8.0)
    silent = taken(status(first, second), status(*later, silent=frozenset({"stream/2"})))
    assert math.isnan(totals(silent).lag), "the lag of all is not known"


def test_a_share_is_not_more_than_all_of_the_time() -> None:
    found = taken(
        status(actor("stream/1", 10.0, task(ONE, 1, 1.0))), status(actor("stream/1", 11.0, task(ONE, 2, 9.0)))
    )
    assert found.busy[0] == BUSY_STEPS
    busy = {(NODE, "busy-ratio", "enrich"): 9.0}
    assert list(taken(status(actor("stream/1", 1.0, task(ONE, 1, measured=busy)))).flow.busy) == [BUSY_STEPS]


def test_dead_letters_and_restoring_tasks_are_counted() -> None:
    def letters(count: int) -> TaskStatus:
        return task(ONE, 1, measured={(TASK, "dead-letters-total"): count})

    restoring = [TaskStatus(TaskId(1, number), TaskState.RESTORING) for number in range(2)]
    found = taken(status(actor("stream/1", 1.0, letters(5))), status(actor("stream/1", 2.0, letters(8), *restoring)))
    assert (totals(found).dead_letters, totals(found).restoring) == (3, 2)


def measured(operators: int, topics: int, read: float = 0.0) -> dict[tuple[str, ...], float]:
    """The figures of a task with this many operators and topics."""
    found: dict[tuple[str, ...], float] = {}
    for number in range(operators):
        name = f"KSTREAM-MAPVALUES-{number:010}"
        found |= {(NODE, "records-rate", name): 5.0, (NODE, "busy-ratio", name): 0.25}
    for number in range(topics):
        found[TOPIC, "records-consumed-total", "source", f"application-of-orders-{number}-repartition"] = read
    return found


def sample(at_ms: int, count: int = 1, rate: float = 1.0, operators: int = 1, topics: int = 1) -> Sample:
    sampling, ids = Sampling(), [TaskId(1, number) for number in range(count)]
    for running_s, records in ((1.0, 0), (2.0, rate)):
        figures = measured(operators, topics, records)
        tasks = [task(each, int(records), behind_s=0.1, measured=figures) for each in ids]
        found = sampling.take(status(actor("stream/1", running_s, *tasks)), ids, at_ms)
    return found


def test_operators_have_the_rate_of_all_tasks_and_the_share_of_the_busiest() -> None:
    def node(rate: float, busy: float) -> dict[tuple[str, ...], float]:
        return {(NODE, "records-rate", "enrich"): rate, (NODE, "busy-ratio", "enrich"): busy,
                (NODE, "process-rate", "source"): 7.0, (NODE, "calls-in-flight", "call"): 3.0}  # fmt: skip

    one = actor("stream/1", 2.0, task(ONE, 1, measured=node(100.0, 0.25)))
    two = actor("stream/2", 2.0, task(TWO, 1, measured=node(50.0, 0.9)))
    flow = taken(status(one, two)).flow
    assert flow.operators == ("call", "enrich", "source")
    assert list(flow.entered_per_s)[1:] == [150.0, 14.0]
    assert list(flow.busy) == [BUSY_UNKNOWN, round(0.9 * BUSY_STEPS), BUSY_UNKNOWN]
    both = actor("stream/1", 2.0, task(ONE, 1, measured=node(100.0, 0.45)), task(TWO, 1, measured=node(100.0, 0.5)))
    together = taken(status(both)).flow
    assert list(together.busy)[1] == round(0.95 * BUSY_STEPS), "the tasks of an actor take turns"
    silent = replace(status(one, two), silent=frozenset({"stream/1"}))
    assert list(taken(silent).flow.entered_per_s)[1:] == [50.0, 7.0]


def test_topics_have_the_rates_since_the_sample_before() -> None:
    def counts(read: float, written: float) -> dict[tuple[str, ...], float]:
        return {(TOPIC, "records-consumed-total", "source", "in"): read,
                (TOPIC, "records-produced-total", "sink", "out"): written}  # fmt: skip

    def at(running_s: float, read: float, written: float, name: str = "stream/1") -> ApplicationStatus:
        both = task(ONE, 1, measured=counts(read, written)), task(TWO, 1, measured=counts(read, written))
        return status(actor(name, running_s, *both))

    flow = taken(at(10.0, 500.0, 100.0), at(15.0, 750.0, 110.0)).flow
    assert flow.topics == ("in", "out")
    assert (flow.read_per_s[0], flow.written_per_s[1]) == (100.0, 4.0)
    assert math.isnan(flow.read_per_s[1])
    first = taken(at(10.0, 1e9, 1e9)).flow
    assert math.isnan(first.read_per_s[0]), "it may have run for days"
    moved = taken(at(10.0, 500.0, 100.0), at(5.0, 50.0, 10.0, "stream/2")).flow
    assert moved.read_per_s[0] == 20.0, "the counts of another actor begin at 0"
    moved = taken(at(10.0, 500.0, 100.0), at(5.0, 600.0, 150.0, "stream/2")).flow
    assert moved.read_per_s[0] == 240.0, "also if it has counted more by now"


def test_names_of_operators_stay_so_that_samples_share_their_list() -> None:
    many = status(actor("stream/1", 1.0, task(ONE, 1, measured=measured(3, 2))))
    few = status(actor("stream/1", 2.0, task(ONE, 1, measured=measured(1, 1))))
    sampling = Sampling()
    first, second = sampling.take(many, [ONE], 0).flow, sampling.take(few, [ONE], 1).flow
    assert first.operators is second.operators
    assert [math.isnan(rate) for rate in second.entered_per_s] == [False, True, True]
    other = {(NODE, "records-rate", f"other-{number}"): 1.0 for number in range(MOST_NAMES)}
    third = sampling.take(status(actor("stream/1", 3.0, task(ONE, 1, measured=other))), [ONE], 2).flow
    assert len(third.operators) == MOST_NAMES, "of too many names the old ones go"


def test_a_sample_has_the_state_of_each_task_and_the_worst_finding() -> None:
    first = actor("stream/1", 10.0, task(ONE, 500))
    known = status(first, unhosted={TWO: "it starts"}, since={f"unhosted {TWO}": 5})
    found = taken(known)
    assert [TASK_STATES[state] for state in found.state] == ["running", "waiting"]
    assert found.finding is not None
    assert (found.finding.level, found.finding.since_ms) == (Level.FAULT, 5)
    long = taken(status(first, waiting="no broker " * 200))
    assert long.finding is not None
    assert len(long.finding.sentence) == LONGEST_FINDING
    silent = taken(status(first, silent=frozenset({"stream/1"})), tasks=(ONE,))
    assert TASK_STATES[silent.state[0]] == "silent"


def test_each_step_has_one_sample_and_an_hour_of_them_is_kept() -> None:
    samples = Samples()
    for at_ms in range(0, 2 * HOUR_MS, 1000):
        if samples.is_due(at_ms):
            samples.add(sample(at_ms))
    kept = samples.between(0, 2 * HOUR_MS)
    assert len(kept) == HOUR_MS // FINEST_STEP_MS == 720
    assert kept[-1].at_ms == 2 * HOUR_MS - FINEST_STEP_MS
    assert [it.at_ms for it in samples.between(kept[3].at_ms, kept[5].at_ms)] == [it.at_ms for it in kept[3:6]]


def test_an_hour_without_tasks_and_details_is_small_and_has_the_figures_of_the_application() -> None:
    samples, one = Samples(), pickle.dumps(sample(0, 200, operators=100, topics=100))
    for at_ms in range(0, HOUR_MS, FINEST_STEP_MS):
        samples.add(replace(pickle.loads(one), at_ms=at_ms))
    whole, totals = samples.between(0, HOUR_MS), samples.between(0, HOUR_MS, tasks=False, details=False)
    assert [(it.at_ms, it.totals) for it in totals] == [(it.at_ms, it.totals) for it in whole]
    assert not any(it.tasks or it.records_per_s or it.flow.operators or it.finding for it in totals)
    large, small = len(pickle.dumps(whole)), len(pickle.dumps(totals))
    print(f"{large:,} and {small:,} bytes")
    assert small < large / 10
    assert all(it.tasks and not it.flow.topics for it in samples.between(0, HOUR_MS, details=False))
    assert all(it.flow.topics and not it.tasks for it in samples.between(0, HOUR_MS, tasks=False))


def test_samples_of_a_time_that_is_still_to_come_go_when_the_clock_is_set_back() -> None:
    samples = Samples()
    for at_ms in (1_000_000, 1_005_000, 1_010_000):
        samples.add(sample(at_ms))
    assert samples.is_due(1_004_000)
    samples.add(sample(1_004_000))
    assert [it.at_ms for it in samples.between(0, HOUR_MS)] == [1_004_000]


def test_with_more_tasks_the_step_becomes_coarser_and_what_is_there_is_merged() -> None:
    samples = Samples()
    for slot, rate in enumerate([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]):
        samples.add(sample(slot * FINEST_STEP_MS, rate=rate))
    assert step_for(2000, 16) == samples.step_ms * 8
    samples.add(sample(8 * FINEST_STEP_MS, 2000))
    assert samples.step_ms == 8 * FINEST_STEP_MS
    first, second = samples.between(0, HOUR_MS)
    assert list(first.records_per_s) == [45.0]
    assert len(second.tasks) == 2000


def test_a_merged_sample_keeps_what_is_known_of_either() -> None:
    one, later = sample(0, rate=10.0), sample(5000, 2, rate=20.0)
    later.records_per_s[0] = later.behind_s[0] = math.nan
    later.busy[0] = BUSY_UNKNOWN
    found = merged(one, later)
    assert found.tasks == later.tasks
    assert list(found.records_per_s) == [10.0, 20.0]
    assert found.behind_s[0] == pytest.approx(0.1)
    assert found.busy[0] != BUSY_UNKNOWN
    assert totals(found).records_per_s == 25.0  # of 10, and of 40 of two tasks
    assert totals(found).dead_letters == 0


def test_of_the_totals_of_two_steps_each_is_merged_in_its_own_way() -> None:
    first = Totals(records_per_s=10, lag=70, behind_s=3, commits_per_s=4, restoring=5, dead_letters=6)
    last = Totals(records_per_s=20, lag=50, behind_s=1, commits_per_s=8, restoring=2, dead_letters=9)
    one, later = replace(sample(0), totals=array("d", first)), replace(sample(5000), totals=array("d", last))
    one.behind_s[0], later.behind_s[0] = 3.0, 1.0
    found = merged(one, later)
    assert totals(found) == Totals(15, 50, 3, 6, 5, 15)
    assert (found.at_ms, list(found.behind_s)) == (0, [3.0])
    assert merged(replace(one, finding=None), replace(later, finding=None)).finding is None
    gaps = replace(one, totals=array("d", [math.nan] * 6)), replace(later, totals=array("d", [math.nan] * 6))
    assert all(map(math.isnan, merged(*gaps).totals))


def test_of_two_steps_the_rates_are_averaged_and_the_worse_finding_is_kept() -> None:
    one, later = sample(0), sample(5000, operators=2)
    one.flow.entered_per_s[0], later.flow.entered_per_s[0] = 10.0, 20.0
    one.flow.busy[0], later.flow.busy[0] = 100, BUSY_UNKNOWN
    fault, well = Finding(Level.FAULT, "bad", "bad"), Finding(Level.OK, "well", "well")
    found = merged(replace(one, finding=fault), replace(later, finding=well))
    assert found.finding == fault
    assert merged(replace(one, finding=well), replace(later, finding=fault)).finding == fault
    assert list(found.flow.entered_per_s) == [15.0, 5.0]
    assert list(found.flow.busy) == [100, round(0.25 * BUSY_STEPS)]


@pytest.mark.parametrize(
    ("count", "actors", "operators", "step_ms"),
    [(200, 16, 100, 5000), (200, 200, 1, 5000), (2000, 16, 100, 40_000), (2000, 500, 1, 40_000)],
)
def test_an_hour_of_samples_with_full_lists_of_events_fits_into_five_megabytes(
    count: int, actors: int, operators: int, step_ms: int
) -> None:
    samples, events = Samples(), EventList()
    one = sample(0, count, operators=operators, topics=operators)
    flow = one.flow
    for at_ms in range(0, 2 * HOUR_MS, FINEST_STEP_MS):
        if samples.is_due(at_ms):
            # Its names, ids and arrays are its own, as if it had come from another process; an actor has failed again.
            numbers = [*range(actors), actors + at_ms // FINEST_STEP_MS]
            names = tuple(f"stream/{number}" for number in numbers)
            copied: Sample = pickle.loads(pickle.dumps(one))
            assert copied.finding is not None
            finding = replace(copied.finding, sentence=f"{at_ms}: ".ljust(LONGEST_FINDING, "€"))
            # The names of operators are those that the sampling has given out, which keeps them.
            shared = replace(copied.flow, operators=flow.operators, topics=flow.topics)
            samples.add(replace(copied, at_ms=at_ms, actors=names, flow=shared, finding=finding))
    for number in range(3000):
        for kind in (EventKind.LOG, EventKind.MOVE):
            text = f"{number}: " + "é" * (number % 600)
            events.add(HistoryEvent(number, kind, EventLevel.INFO, text, f"stream/{number}", TaskId(1, 1), text))
    used = bytes_of(samples, events)
    print(f"{count} tasks, {actors} actors, {operators} operators and topics: {used:,} bytes")
    assert samples.step_ms == step_ms
    assert len(samples.between(0, 2 * HOUR_MS)) == HOUR_MS // step_ms
    assert 1_500_000 < used < 5_000_000


def test_lists_of_tasks_that_change_again_and_again_take_no_more_space() -> None:
    samples = Samples()
    for slot in range(100):
        samples.add(replace(sample(slot * FINEST_STEP_MS), tasks=(TaskId(slot, 0),)))
    assert len(samples.between(0, HOUR_MS)) == MOST_TASK_LISTS


def test_lists_of_operators_that_change_again_and_again_take_no_more_space() -> None:
    samples = Samples()
    for slot in range(100):
        one = sample(slot * FINEST_STEP_MS)
        samples.add(replace(one, flow=replace(one.flow, operators=(f"operator-{slot}",))))
    assert len(samples.between(0, HOUR_MS)) == MOST_FLOW_LISTS


def bytes_of(*roots: object) -> int:
    """Returns the bytes of all objects that are reached from these, except types, functions and members of enums."""
    seen: set[int] = set()
    left, total = list(roots), 0
    while left:
        it = left.pop()
        if id(it) not in seen and not isinstance(it, type | FunctionType | BuiltinFunctionType | Enum):
            seen.add(id(it))
            total += sys.getsizeof(it)
            left += gc.get_referents(it)
    return total
