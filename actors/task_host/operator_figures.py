"""The share of time and the records per second of each operator of a task, from the runs that were measured.

They outlive the task's renewal after an aborted transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.common.measures import WINDOW_S
from penstock.common.metric_names import NODE, Measured
from penstock.tasks.measuring.operator_meter import OperatorMeter

RECORDS, LONG, PUNCTUATORS, COMMIT = range(4)
"""The kinds of runs: records; records that took unusually long; punctuators; steps of a commit, which flush caches. One
that is measured stands only for others of its kind."""
_LONG_S = 0.02
"""From this duration on, a run with records is a long one: runs end after some 2 ms, or after their first record."""
_SLOW_S = 0.001
"""Seconds per record from which on the run after a long one is measured anyway: for slow records that costs little."""
MOST_RECORDS = 100
"""Most records of a measured run: at a high load, ten short runs cost as much as a whole one, and show more."""
_LEAST_RUNS = 5
"""Number of runs of each kind that are measured in each half minute; if there are fewer, all are."""
_MOST_UNKNOWN = 0.5
"""Share of a task's time about which nothing need be known for its operators to have figures: these lack that time."""
_LOOK_EACH_S = 1.0
_SAMPLE_EACH_S = 5.0


@dataclass
class _Kind:
    """Totals of all runs of one kind, of the measured ones, and estimates from these: each stands for several.
    ``wanted``: number of runs that are still to be measured in this half minute, picked at random or not."""

    runs: int = 0
    seconds: float = 0.0
    records: int = 0
    measured_runs: int = 0
    stood_for_s: float = 0.0
    stood_for_records: float = 0.0
    wanted: int = _LEAST_RUNS
    calls: dict[str, float] = field(default_factory=dict)
    self_s: dict[str, float] = field(default_factory=dict)

    def copy(self) -> _Kind:
        return _Kind(**{**self.__dict__, "calls": dict(self.calls), "self_s": dict(self.self_s)})

    def since(self, then: _Kind) -> _Kind:
        """Returns the growth since ``then``."""
        return _Kind(
            self.runs - then.runs,
            self.seconds - then.seconds,
            self.records - then.records,
            self.measured_runs - then.measured_runs,
            self.stood_for_s - then.stood_for_s,
            self.stood_for_records - then.stood_for_records,
            calls={node: each - then.calls.get(node, 0.0) for node, each in self.calls.items()},
            self_s={node: each - then.self_s.get(node, 0.0) for node, each in self.self_s.items()},
        )

    def estimated(self) -> _Kind | None:
        """Returns the estimates for all these runs; None if too few of them were measured."""
        if self.measured_runs < min(self.runs, _LEAST_RUNS):
            return None
        # The overhead of measuring is taken off each operator and off the run, so their sum may be larger by a little.
        # That must not change a count: the calls of commits and punctuators, which have no records, are scaled by the
        # time of the runs alone.
        measured_s = max(self.stood_for_s, sum(self.self_s.values()))
        time_scale = _ratio(self.seconds, measured_s)
        calls_scale = _ratio(self.records, self.stood_for_records, _ratio(self.seconds, self.stood_for_s))
        return self.scaled(calls_scale, time_scale, self.seconds)

    def scaled(self, calls: float, time: float, seconds: float | None = None) -> _Kind:
        """Returns calls and seconds of operators times these factors."""
        return _Kind(
            seconds=time * self.seconds if seconds is None else seconds,
            calls={node: calls * each for node, each in self.calls.items()},
            self_s={node: time * each for node, each in self.self_s.items()},
        )


class OperatorFigures:
    """``runs`` picks the runs that are measured. ``sources``: the node that reads each topic."""

    def __init__(self, runs: MeasuredRuns, sources: Mapping[str, str]) -> None:
        self._runs = runs
        self._sources = sources
        self.now_s = runs.now_s
        self._meter: OperatorMeter | None = None
        self._weight = 0.0
        self._after_slow = False
        self._kinds = [_Kind() for _ in range(4)]
        self._decoded_s: dict[str, float] = {}
        self._samples: deque[tuple[float, list[_Kind], dict[str, float]]] = deque()
        self._looked_s = -_LOOK_EACH_S
        self._measured: Measured = {}

    def new_meter(self) -> OperatorMeter:
        """Returns the meter of the task, which has just been made, perhaps again."""
        self._meter = self._runs.meter()
        return self._meter

    # ---- while it works ----

    def decoded(self, topic: str, spent_s: float) -> None:
        """Counts seconds for which records of a topic were decoded and queued."""
        node = self._sources.get(topic, topic)
        self._decoded_s[node] = self._decoded_s.get(node, 0.0) + spent_s

    def begin(self, kind: int = RECORDS, has_work: Callable[[], bool] | None = None) -> bool:
        """Begin a run, and measure it if it is picked. :meth:`end` must follow, or :meth:`fail`.

        Returns True if it is measured. It should then have at most ``MOST_RECORDS`` records. A run for which
        ``has_work`` returns False is not measured: while little happens, most of a loop's calls find nothing to do.
        """
        meter = self._meter
        if meter is None or not meter.connected:
            return False
        # Of punctuators and commits there are few. If an operator is slow, most runs are long.
        anyway = kind != RECORDS or self._after_slow or self._kinds[kind].wanted > 0
        weight = self._runs.pick(anyway)
        if not weight or (has_work is not None and not has_work()):
            return False
        self._weight = weight
        meter.begin()
        return True

    def steps(self, steps: Iterator[None]) -> Iterator[None]:
        """Yields as ``steps``, the steps of a commit, each of which is a run."""
        while True:
            begun_s = self.now_s()
            self.begin(COMMIT)
            try:
                next(steps)
            except StopIteration:
                self.end(COMMIT, self.now_s() - begun_s)
                return
            except BaseException:
                self.fail()
                raise
            self.end(COMMIT, self.now_s() - begun_s)
            yield

    def fail(self) -> None:
        """End a run that has raised an error: it does not count."""
        if self._weight and self._meter is not None:
            self._weight = 0.0
            self._meter.end()

    def end(self, kind: int, spent_s: float, records: int = 0, *, idle: bool = False) -> float:
        """End a run, which took ``spent_s``. Returns the seconds that it would have taken without being measured.
        ``idle``: there was nothing to do, and the run does not count."""
        weight, meter, rest_s = self._weight, self._meter, 0.0
        if weight and meter is not None:
            self._weight = 0.0
            ended = meter.end()
            rest_s, spent_s = ended.in_no_node_s, max(0.0, spent_s - ended.longer_s)
            self._runs.measured(weight, ended.cost_s)
        if idle:
            return spent_s
        if kind == RECORDS:
            kind = LONG if spent_s >= _LONG_S else RECORDS
            self._after_slow = kind == LONG and spent_s >= records * _SLOW_S
        totals = self._kinds[kind]
        totals.runs += 1
        totals.seconds += spent_s
        totals.records += records
        if weight and meter is not None:
            self._add(totals, meter, weight, spent_s, records)
            if kind in (RECORDS, LONG):
                self._add_rest(totals, meter, weight * rest_s)
        return spent_s

    @staticmethod
    def _add(totals: _Kind, meter: OperatorMeter, weight: float, spent_s: float, records: int) -> None:
        totals.measured_runs += 1
        totals.wanted -= 1
        totals.stood_for_s += weight * spent_s
        totals.stood_for_records += weight * records
        calls, self_s = totals.calls, totals.self_s
        for node, seen in meter.nodes.items():
            if seen.calls or seen.self_s:
                calls[node] = calls.get(node, 0.0) + weight * seen.calls
                self_s[node] = self_s.get(node, 0.0) + weight * max(0.0, seen.self_s)

    def _add_rest(self, totals: _Kind, meter: OperatorMeter, rest_s: float) -> None:
        """Add the time in no operator, which is that of the queues of records, to the sources: equally per record."""
        entered = {
            node: seen.calls for node in set(self._sources.values()) if (seen := meter.nodes.get(node)) is not None
        }
        if all_of_them := sum(entered.values()):
            for node, calls in entered.items():
                totals.self_s[node] = totals.self_s.get(node, 0.0) + rest_s * calls / all_of_them

    # ---- on request ----

    def measured(self, now_s: float) -> Measured:
        """Returns the figures of the last half minute, at most a second old. They lack the time of runs about which too
        little is known, and are absent if that is more than half of the task's time."""
        if now_s - self._looked_s >= _LOOK_EACH_S:
            self._looked_s = now_s
            self._measured = self._look(now_s)
        return self._measured

    def _look(self, now_s: float) -> Measured:
        begun_s, before, decoded_before = self._sampled(now_s)
        for now, then in zip(self._kinds, before, strict=True):
            now.wanted = _LEAST_RUNS - (now.measured_runs - then.measured_runs)
        elapsed_s = now_s - begun_s
        if elapsed_s <= 0 or self._meter is None or not self._meter.connected:
            return {}
        grown = [now.since(then) for now, then in zip(self._kinds, before, strict=True)]
        known = [each.estimated() for each in grown]
        if known[LONG] is None:
            known[LONG] = _as_usual(grown[LONG], grown[RECORDS], known[RECORDS])
        seen = [each for each in known if each is not None]
        unseen = [now for now, each in zip(self._kinds, known, strict=True) if each is None]
        spent_s = sum(each.seconds for each in grown)
        unknown_s = spent_s - sum(each.seconds for each in seen)
        # Commits and punctuators meet the same operators each time: the others' figures are known all the same.
        apart_s = sum(
            grown[kind].seconds
            for kind in (PUNCTUATORS, COMMIT)
            if known[kind] is None and self._kinds[kind].measured_runs >= _LEAST_RUNS
        )
        if unknown_s - apart_s > _MOST_UNKNOWN * spent_s:
            return {}
        nodes = self._meter.nodes
        busy_s = {node: sum(each.self_s.get(node, 0.0) for each in seen) for node in nodes}
        calls = {node: sum(each.calls.get(node, 0.0) for each in seen) for node in nodes}
        for node, decoded_s in self._decoded_s.items():
            busy_s[node] = busy_s.get(node, 0.0) + decoded_s - decoded_before.get(node, 0.0)
        for node in [node for node in nodes if unknown_s > 0 and _may_lack(node, calls[node], unseen)]:
            del busy_s[node], calls[node]
        measured: Measured = {(NODE, "busy-ratio", node): min(1.0, spent / elapsed_s) for node, spent in busy_s.items()}
        measured |= {(NODE, "records-rate", node): each / elapsed_s for node, each in calls.items()}
        return measured

    def _sampled(self, now_s: float) -> tuple[float, list[_Kind], dict[str, float]]:
        """Returns the totals half a minute ago, or the first, with their time."""
        samples = self._samples
        if not samples or now_s - samples[-1][0] >= _SAMPLE_EACH_S:
            samples.append((now_s, [kind.copy() for kind in self._kinds], dict(self._decoded_s)))
            while len(samples) > 2 and now_s - samples[1][0] >= WINDOW_S:
                samples.popleft()
        return samples[0]


def _ratio(whole: float, part: float, otherwise: float = 1.0) -> float:
    """Returns ``whole / part``; ``otherwise`` if ``part`` is 0."""
    return whole / part if part > 0 else otherwise


def _as_usual(long: _Kind, usual: _Kind, known: _Kind | None) -> _Kind | None:
    """Returns the estimates for long runs as if their records had taken the usual time: of the rest of their time
    nothing is known. None if nothing is known of usual runs either."""
    if known is None or not usual.records:
        return None
    scale = long.records / usual.records
    if usual.seconds > 0:
        scale = min(scale, long.seconds / usual.seconds)
    return known.scaled(scale, scale)


def _may_lack(node: str, calls: float, unseen: list[_Kind]) -> bool:
    """Returns True if records may have entered ``node`` in runs of ``unseen`` kinds, or of long ones."""
    return not calls or any(node in kind.calls for kind in unseen)
