"""The events of an application's last hour, noted from those of the coordinator's state machine."""

from __future__ import annotations

import pytest

from penstock.actors.status import ActorStatus
from penstock.cluster.application_history import EventKind, EventLevel, HistoryEvent
from penstock.cluster.events import (
    ActorFailed,
    ActorLost,
    ActorRecovered,
    ActorSilent,
    ActorsWanted,
    ApplicationFailed,
    ClusterResized,
    Deploy,
    Event,
    GroupAssigned,
    GroupRebalances,
    MoveTaskRequested,
    NodesDraining,
    RestartActorRequested,
    StopRequested,
    TasksHeld,
    TasksPlanned,
    Timer,
    TimerFired,
)
from penstock.cluster.history.event_list import LONGEST_SENTENCE, MOST_BYTES, MOST_EVENTS, EventList
from penstock.cluster.history.history import History
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.cluster.rollout import Hold
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.cluster.wishes import NO_WISHES
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId
from penstock.common.log_line import LogLine
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.placement import Cluster

MINUTE_MS = 60_000
STATELESS = TaskPlan((SubtopologyTasks(0, {"lines": 4}),))


class Noted(Cluster):
    """A coordinator over actors that carry out orders at once, and its history."""

    def __init__(self, plan: TaskPlan = STATELESS, restarted: bool = False) -> None:
        super().__init__(StandbyPolicy(), plan)
        self.now_ms = 1_000
        self.history = History(self.machine, lambda: self.now_ms, restarted)
        handle = self.machine.handle

        def heard(event: Event) -> list[object]:
            instructions = handle(event)
            self.history.decided(event, instructions)
            return list(instructions)

        self.machine.handle = heard  # type: ignore[assignment,method-assign]

    @property
    def events(self) -> tuple[HistoryEvent, ...]:
        return self.history.between(0, 10**15).events

    def new(self, *events: Event) -> list[str]:
        """Returns the sentences that these events add."""
        before = len(self.events)
        self(*events)
        return [event.sentence for event in self.events[before:]]

    def of(self, kind: EventKind) -> list[str]:
        return [event.sentence for event in self.events if event.kind is kind]


def test_a_start_is_noted_with_its_states_and_no_task_has_moved() -> None:
    noted = Noted()
    noted.on("a", "b")
    assert noted.of(EventKind.STATE) == [
        "the application is REBALANCING, after CREATED",
        "the application is RUNNING, after REBALANCING",
    ]
    assert noted.of(EventKind.ACTOR) == ["stream/1 has started", "stream/2 has started"]
    assert noted.of(EventKind.GROUP) == ["the group gives 4 partitions to this Ray cluster: 4 tasks"]
    assert noted.of(EventKind.SCALE) == ["2 stream actors wanted"]
    assert not noted.of(EventKind.MOVE)


def test_a_restarted_coordinator_says_that_the_history_begins_again_and_what_it_has_found_has_not_moved() -> None:
    noted = Noted(restarted=True)
    noted(ActorRecovered("stream/1", 5, frozenset(STATELESS.partitions), node="a"))
    noted(ClusterResized(1), GroupAssigned(STATELESS.reads))
    assert noted.events[0].sentence == "the coordinator was restarted: the history begins here"
    assert noted.of(EventKind.ACTOR) == ["the restarted coordinator has found stream/1 with 4 tasks"]
    assert not noted.of(EventKind.MOVE)


def test_a_restarted_coordinator_notes_moves_from_the_actors_that_it_has_found() -> None:
    noted = Noted(restarted=True)
    noted(ActorRecovered("stream/1", 5, frozenset(STATELESS.partitions), node="a"))
    noted(ClusterResized(2), GroupAssigned(STATELESS.reads))
    (second,) = noted.up("b")
    assert noted.of(EventKind.MOVE) == [f"tasks 0_2, 0_3 move from stream/1 to {second}: to balance the load"]


def test_a_version_that_fails_is_noted_with_the_reason() -> None:
    noted = Noted()
    noted.on("a")
    noted(Deploy(2, 60.0))
    noted(ActorFailed(noted.starts()[0], "boom"))
    assert noted.of(EventKind.ROLLOUT)[-1] == "version 2 of the program: rolled back: boom"
    assert noted.of(EventKind.ROLLOUT)[-2] == "version 2 of the program: rolling back: boom"


def test_tasks_of_a_lost_actor_move_because_it_is_lost() -> None:
    noted = Noted()
    first, second = noted.on("a", "b")
    mine = sorted(noted.tasks[first])
    assert noted.new(ActorLost(first)) == [
        "stream/1 is lost",
        "the application is REBALANCING, after RUNNING",
    ]
    (third,) = noted.up("a")
    assert noted.of(EventKind.MOVE) == [f"tasks {mine[0]}, {mine[1]} move from {first} to {third}: {first} is lost"]
    assert [event.level for event in noted.events if event.actor_id == first][-1] is EventLevel.WARNING
    assert second in noted.tasks


def test_a_move_for_balance_and_one_that_a_user_wants_have_their_reasons() -> None:
    noted = Noted()
    (first,) = noted.on("a")
    noted(ClusterResized(2))
    (second,) = noted.up("b")
    assert noted.of(EventKind.MOVE) == [f"tasks 0_2, 0_3 move from {first} to {second}: to balance the load"]
    assert noted.new(MoveTaskRequested(TaskId(0, 0), second))[:2] == [
        f"a user has asked to move task 0_0 to {second}",
        f"task 0_0 moves from {first} to {second}: a user has asked for it",
    ]
    assert next(event for event in noted.events if event.task_id is not None).task_id == TaskId(0, 0)


STATEFUL = TaskPlan((SubtopologyTasks(0, {"lines": 4}, stateful=True, logged=True),))


def given_up(noted: Noted) -> list[tuple[str, EventLevel, TaskId | None]]:
    moves = [event for event in noted.events if event.kind is EventKind.MOVE and "not hold" in event.sentence]
    return [(event.sentence, event.level, event.task_id) for event in moves]


def test_a_move_that_a_user_wants_and_that_an_actor_s_end_prevents_is_given_up_in_words() -> None:
    noted = Noted(STATEFUL)
    first, second = noted.on("a", "b")
    task = min(noted.tasks[first])
    noted(MoveTaskRequested(task, second))
    assert given_up(noted) == []
    noted.lose(second)
    noted(TimerFired(Timer.WAIT_FOR_ACTORS))
    sentence = f"a user had asked to move task {task} to {second}, which does not hold any more: stream actors have "
    assert given_up(noted) == [(f"{sentence}come or gone since", EventLevel.WARNING, task)]


def test_a_wish_that_the_group_ends_has_that_reason_and_another_wish_in_its_place_is_not_its_end() -> None:
    noted = Noted(STATEFUL)
    first, second, third = noted.on("a", "b", "c")
    task = min(noted.tasks[first])
    noted(MoveTaskRequested(task, second), MoveTaskRequested(task, third))
    assert given_up(noted) == []
    noted(GroupAssigned(frozenset(at for at in STATEFUL.reads if at.partition != task.partition)))
    sentence = f"a user had asked to move task {task} to {third}, which does not hold any more: the group has taken it "
    assert given_up(noted) == [(f"{sentence}away", EventLevel.WARNING, task)]


def test_a_wish_that_was_fulfilled_ends_without_a_word() -> None:
    noted = Noted()
    first, second = noted.on("a", "b")
    noted(MoveTaskRequested(min(noted.tasks[first]), second))
    noted(ClusterResized(3))
    noted.up("c")
    assert given_up(noted) == []
    assert noted.machine.wishes == NO_WISHES


def test_a_refused_move_is_not_noted() -> None:
    noted = Noted()
    (first,) = noted.on("a")
    assert noted.new(MoveTaskRequested(TaskId(0, 0), first), MoveTaskRequested(TaskId(0, 0), "stream/9")) == []


def test_tasks_leave_a_drained_node_and_a_restarted_actor() -> None:
    noted = Noted()
    first, second = noted.on("a", "b")
    noted(NodesDraining({"a": 600.0}))
    assert noted.of(EventKind.SCALE)[-1] == "1 node will be gone: the actors there leave"
    noted.up("c")
    assert f"move from {first} to stream/3: its node will be gone" in noted.of(EventKind.MOVE)[-1]
    noted(NodesDraining({}))
    assert noted.of(EventKind.SCALE)[-1] == "no node is drained any more"
    noted.new(RestartActorRequested(second))
    assert noted.of(EventKind.ACTOR)[-1] == f"a user has asked to restart {second}"
    noted.end_those_that_stop()
    assert f"{second} has committed and ended" in noted.of(EventKind.ACTOR)
    noted.up("b")
    assert f"move from {second} to stream/4: {second} has ended" in noted.of(EventKind.MOVE)[-1]


LARGER = TaskPlan((SubtopologyTasks(0, {"lines": 5}),))


@pytest.mark.parametrize(
    ("event", "kind", "sentence", "level"),
    [
        (TasksPlanned(LARGER), EventKind.GROUP, "the source topics have changed: there are 5 tasks", EventLevel.INFO),
        (GroupAssigned(None), EventKind.GROUP, "the session in the group is lost", EventLevel.WARNING),
        (GroupRebalances(), EventKind.GROUP, "the group rebalances", EventLevel.INFO),
        (ActorsWanted(1), EventKind.SCALE, "1 stream actor wanted, 2 before", EventLevel.INFO),
        (ActorSilent("stream/1", True), EventKind.ACTOR, "stream/1 gives no sign of life", EventLevel.WARNING),
        (ActorSilent("stream/1", False), EventKind.ACTOR, "stream/1 answers again", EventLevel.INFO),
        (Deploy(2, 60.0), EventKind.ROLLOUT, "version 2 of the program: starting", EventLevel.INFO),
        (TasksHeld(Hold.PAUSED), EventKind.PAUSE, "paused", EventLevel.INFO),
        (TasksHeld(Hold.NO_BROKER), EventKind.STATE, "no broker answers", EventLevel.WARNING),
        (StopRequested(), EventKind.STATE, "a user has asked for the end", EventLevel.INFO),
        (ActorFailed("stream/1", "boom\n  at x"), EventKind.ACTOR, "stream/1 has failed: boom", EventLevel.ERROR),
    ],
)
def test_each_event_has_its_kind_and_level(event: Event, kind: EventKind, sentence: str, level: EventLevel) -> None:
    noted = Noted()
    noted.on("a", "b")
    before = len(noted.events)
    noted(event)
    found = noted.events[before]
    assert (found.kind, found.level) == (kind, level)
    assert found.sentence.startswith(sentence)


def test_a_pause_ends_in_a_resume_and_an_outage_with_the_broker() -> None:
    noted = Noted()
    noted.on("a")
    assert noted.new(TasksHeld(Hold.PAUSED), TasksHeld(None)) == ["paused", "resumed"]
    assert noted.new(TasksHeld(Hold.NO_BROKER), TasksHeld(None)) == ["no broker answers", "a broker answers again"]


def test_a_pause_while_no_broker_answers_does_not_say_that_one_answers() -> None:
    noted = Noted()
    noted.on("a")
    assert noted.new(TasksHeld(Hold.NO_BROKER), TasksHeld(Hold.PAUSED)) == ["no broker answers", "paused"]
    assert noted.new(TasksHeld(Hold.NO_BROKER), TasksHeld(None)) == ["resumed", "a broker answers again"]
    noted.now_ms += 10 * MINUTE_MS
    assert noted.new(TasksHeld(Hold.NO_BROKER), TasksHeld(Hold.PAUSED)) == ["no broker answers", "paused"]
    assert noted.new(TasksHeld(None)) == ["resumed", "a broker answers again"]


def test_the_error_that_ends_the_application_is_noted() -> None:
    noted = Noted()
    noted.on("a")
    noted(ApplicationFailed("no such topic"))
    noted.end_those_that_stop()
    found = [event for event in noted.events if event.level is EventLevel.ERROR]
    assert [event.sentence for event in found] == [
        "the application is PENDING_ERROR, after RUNNING: no such topic",
        "the application is ERROR, after PENDING_ERROR: no such topic",
    ]


def test_an_actor_that_fails_and_is_replaced_names_itself_in_the_moves() -> None:
    noted = Noted()
    first, _ = noted.on("a", "b")
    noted(ActorFailed(first, "boom", UncaughtExceptionResponse.REPLACE_ACTOR))
    noted.up("a")
    assert noted.of(EventKind.MOVE)[-1].endswith(f"{first} has failed")


def test_many_tasks_that_go_the_same_way_are_one_event() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 200}),))
    noted = Noted(plan)
    noted.on("a")
    noted(ClusterResized(2))
    noted.up("b")
    (sentence,) = noted.of(EventKind.MOVE)
    assert sentence.endswith("0_107, and 92 others move from stream/1 to stream/2: to balance the load")


# ---- bounds ----


def line(at_ms: int, message: str, sentence: str = "", actor: str = "stream/1") -> HistoryEvent:
    return HistoryEvent(at_ms, EventKind.LOG, EventLevel.WARNING, sentence or message, actor, None, message)


def test_lists_are_bounded_by_number_and_by_bytes_and_lines_of_the_log_remove_no_other_event() -> None:
    events = EventList()
    events.add(HistoryEvent(0, EventKind.STATE, EventLevel.INFO, "the first"))
    for number in range(3 * MOST_EVENTS):
        events.add(line(number, f"{number}"))
    kept = events.between(0, 10**9)
    assert kept[0].sentence == "the first"
    assert len(kept) <= MOST_EVENTS + 1
    for number in range(1000):
        events.add(line(10**6 + number, f"{number}", "x" * 10_000))
    kept = events.between(0, 10**9)
    assert sum(len(event.sentence) for event in kept) < MOST_BYTES
    assert {len(event.sentence) for event in kept if event.at_ms >= 10**6} == {LONGEST_SENTENCE}


def test_half_of_a_surrogate_pair_is_written_as_text() -> None:
    events = EventList()
    events.add(line(0, "caf\udce9 cannot be read"))
    events.add(line(0, "x", actor="caf\udce9" + "x" * 10_000))
    found = events.between(0, 1)
    assert found[0].sentence == "caf\\udce9 cannot be read"
    assert found[1].actor_id is not None
    assert found[1].actor_id.startswith("caf\\udce9x")
    assert len(found[1].actor_id) <= LONGEST_SENTENCE + 10


def test_a_line_that_comes_again_within_a_minute_is_counted() -> None:
    events = EventList()
    for at_ms, reason in ((0, "a"), (500, "b"), (MINUTE_MS, "c"), (4 * MINUTE_MS, "d")):
        events.add(line(at_ms, "commit failed, retrying", f"commit failed, retrying: {reason}"))
    events.add(line(4 * MINUTE_MS, "commit failed, retrying", actor="stream/2"))
    assert [(event.at_ms, event.until_ms, event.times) for event in events.between(0, 10**9)] == [
        (0, MINUTE_MS, 3), (4 * MINUTE_MS, 4 * MINUTE_MS, 1), (4 * MINUTE_MS, 4 * MINUTE_MS, 1),
    ]  # fmt: skip


def test_a_late_line_that_comes_again_does_not_end_before_the_others() -> None:
    events = EventList()
    for at_ms in (50, 20):
        events.add(line(at_ms, "again"))
    (found,) = events.between(0, 100)
    assert (found.at_ms, found.until_ms, found.times) == (50, 50, 2)


def test_lines_that_arrive_late_are_in_order_of_their_time() -> None:
    events = EventList()
    for at_ms in (50, 20, 30):
        events.add(line(at_ms, str(at_ms)))
    events.add(HistoryEvent(25, EventKind.STATE, EventLevel.INFO, "a state"))
    assert [event.at_ms for event in events.between(25, 30)] == [25, 30]


# ---- lines of the log ----


def with_lines(first: int, last: int, pid: int = 1) -> ActorStatus:
    lines = tuple(
        LogLine(number, 10 * number, "warning" if number % 2 else "error", f"line {number}", f"line {number}: x",
                "stream/1", "0_1" if number else "no task")
        for number in range(first, last + 1)
    )  # fmt: skip
    return ActorStatus("stream/1", "a", pid, 1, (), log=lines)


def test_each_line_of_an_actor_is_noted_once_in_order_although_it_comes_with_some_statuses() -> None:
    noted = Noted()
    for status in (with_lines(0, 2), with_lines(0, 2), with_lines(2, 3), ActorStatus("stream/1", "a", 1, 1, ())):
        noted.history.reported(status)
    lines = [event for event in noted.events if event.kind is EventKind.LOG]
    assert [event.message for event in lines] == ["line 0", "line 1", "line 2", "line 3"]
    assert [event.times for event in lines] == [1, 1, 1, 1]
    assert [event.level for event in lines[:2]] == [EventLevel.ERROR, EventLevel.WARNING]
    assert [event.task_id for event in lines[:2]] == [None, TaskId(0, 1)]
    assert lines[1].sentence == "line 1: x"


def test_another_process_of_the_same_name_begins_to_count_again() -> None:
    noted = Noted()
    noted.history.reported(with_lines(0, 1))
    noted.now_ms += 10 * MINUTE_MS
    noted.history.reported(with_lines(0, 0, pid=2))
    assert [event.times for event in noted.events if event.kind is EventKind.LOG] == [2, 1]


def test_numbers_of_lines_are_forgotten_with_their_actor_and_each_sample_is_kept() -> None:
    noted = Noted()
    noted.history.reported(with_lines(0, 3))
    for actors, numbers in (((ActorStatus("stream/1", "a", 1, 1, ()),), {("stream/1", 1): 3}), ((), {})):
        assert noted.history.is_due
        noted.history.sample(ApplicationStatus("app", ApplicationState.RUNNING, 1, actors, {}), [])
        assert not noted.history.is_due
        assert noted.history._last_lines == numbers
        noted.now_ms += 5_000
    assert len(noted.history.between(0, noted.now_ms).samples) == 2
