"""The share of time and the records per second of each operator of a task, from the runs that were measured.

They outlive the task's renewal after an aborted transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
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
_OFTEN = 20.0
"""So many times as many runs without records are measured: of punctuators and commits there are few."""
_LEAST_RUNS = 5
_NEGLIGIBLE = 0.03
"""Share of a task's time about which nothing need be known for its operators to have figures."""
_LOOK_EACH_S = 1.0
_SAMPLE_EACH_S = 5.0


@dataclass
class _Kind:
    """Totals of all runs of one kind, of the measured ones, and estimates from these: each stands for several."""

    runs: int = 0
    seconds: float = 0.0
    records: int = 0
    measured_runs: int = 0
    stood_for_s: float = 0.0
    stood_for_records: float = 0.0
    calls: dict[str, float] = field(default_factory=dict)
    self_s: dict[str, float] = field(default_factory=dict)

    def copy(self) -> _Kind:
        return _Kind(**{**self.__dict__, "calls": dict(self.calls), "self_s": dict(self.self_s)})


class OperatorFigures:
    """``runs`` picks the runs that are measured. ``sources``: the node that reads each topic."""

    def __init__(self, runs: MeasuredRuns, sources: Mapping[str, str]) -> None:
        self._runs = runs
        self._sources = sources
        self.now_s = runs.now_s
        self._meter: OperatorMeter | None = None
        self._weight = 0.0
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

    def begin(self, kind: int = RECORDS) -> None:
        """Begin a run, and measure it if it is picked. :meth:`end` must follow, or :meth:`fail`."""
        meter = self._meter
        if meter is not None and meter.connected and (weight := self._runs.pick(_often(kind))):
            self._weight = weight
            meter.begin()

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
            rest_s, cost_s = meter.end()
            spent_s = max(0.0, spent_s - cost_s)
            self._runs.measured(weight, cost_s, _often(kind))
        if idle:
            return spent_s
        if kind == RECORDS and spent_s >= _LONG_S:
            kind = LONG
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
        """Returns the figures of the last half minute, at most a second old. They are absent as long as too few runs
        were measured."""
        if now_s - self._looked_s >= _LOOK_EACH_S:
            self._looked_s = now_s
            self._measured = self._look(now_s)
        return self._measured

    def _look(self, now_s: float) -> Measured:
        samples = self._samples
        if not samples or now_s - samples[-1][0] >= _SAMPLE_EACH_S:
            samples.append((now_s, [kind.copy() for kind in self._kinds], dict(self._decoded_s)))
            while len(samples) > 2 and now_s - samples[1][0] >= WINDOW_S:
                samples.popleft()
        begun_s, before, decoded_before = samples[0]
        elapsed_s = now_s - begun_s
        if elapsed_s <= 0 or self._meter is None or not self._meter.connected:
            return {}
        nodes = dict.fromkeys(self._meter.nodes, 0.0)
        busy_s, calls = dict(nodes), dict(nodes)
        spent_s = sum(now.seconds - then.seconds for now, then in zip(self._kinds, before, strict=True))
        unknown: list[_Kind] = []
        for number, (now, then) in enumerate(zip(self._kinds, before, strict=True)):
            grown = _grown(now, then)
            if grown is None:
                # Commits and punctuators meet the same operators each time: the others' figures are known all the same.
                told = number in (PUNCTUATORS, COMMIT) and now.measured_runs >= _LEAST_RUNS
                if not told and now.seconds - then.seconds > _NEGLIGIBLE * spent_s:
                    return {}
                unknown.append(now)
                continue
            for node in nodes:
                busy_s[node] += grown.self_s.get(node, 0.0)
                calls[node] += grown.calls.get(node, 0.0)
        for node, decoded_s in self._decoded_s.items():
            busy_s[node] = busy_s.get(node, 0.0) + decoded_s - decoded_before.get(node, 0.0)
        for node in [node for node in nodes if unknown and _may_lack(node, calls[node], unknown)]:
            del busy_s[node], calls[node]
        measured: Measured = {(NODE, "busy-ratio", node): min(1.0, spent / elapsed_s) for node, spent in busy_s.items()}
        measured |= {(NODE, "records-rate", node): each / elapsed_s for node, each in calls.items()}
        return measured


def _often(kind: int) -> float:
    return 1.0 if kind in (RECORDS, LONG) else _OFTEN


def _may_lack(node: str, calls: float, unknown: list[_Kind]) -> bool:
    """Returns True if records may have entered ``node`` in runs of kinds that too little is known of."""
    return not calls or any(node in kind.calls for kind in unknown)


def _grown(now: _Kind, then: _Kind) -> _Kind | None:
    """Returns the estimates for all runs between two looks; None if too few of them were measured."""
    runs, measured = now.runs - then.runs, now.measured_runs - then.measured_runs
    if not runs:
        return _Kind()
    if measured < min(runs, _LEAST_RUNS):
        return None
    seconds, stood_for_s = now.seconds - then.seconds, now.stood_for_s - then.stood_for_s
    records, stood_for = now.records - then.records, now.stood_for_records - then.stood_for_records
    time_scale = seconds / stood_for_s if stood_for_s > 0 else 1.0
    calls_scale = records / stood_for if stood_for > 0 else time_scale
    return _Kind(
        calls={node: calls_scale * (each - then.calls.get(node, 0.0)) for node, each in now.calls.items()},
        self_s={node: time_scale * (each - then.self_s.get(node, 0.0)) for node, each in now.self_s.items()},
    )
