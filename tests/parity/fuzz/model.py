"""A reference model: the expected results of ``deduplicate``, ``ttl_ms`` and ``window.idle.advance.ms``.

It is written from docs/DEDUPLICATION.md, docs/TTL.md and docs/WINDOWS.md, keeps everything in plain dictionaries, looks
at all of it each time, and uses no store, task or closure of penstock. It plays what ``own.py`` generates, as the test
driver does: one task of one partition, and a commit after each record.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.parity import functions
from tests.parity.fuzz.model_idle import IdleClock
from tests.parity.fuzz.model_rows import Row, Table, in_order
from tests.parity.fuzz.model_windows import Windows
from tests.parity.ops_own import IDLE

Case = dict[str, Any]
Step = dict[str, Any]
Run = Callable[[Any, Any, int], None]
"""A function of key, value and timestamp."""
COMPARED = ("output", "stores", "metrics")


def _of_two(step: Step) -> None:
    if step["in"] == step["with"]:
        raise ValueError(f"the model knows no {step['op']} of one and the same")


def model(case: Case, restart: int | None = None) -> Case:
    """Returns the expected result of ``case`` if its task is thrown away before record ``restart`` (None: never)."""
    run = Model(case)
    for number, event in enumerate(case["input"]):
        if number == restart:
            run.idle.restart()
        run.happen(event)
    return run.played()


class Model:
    """One run of a case."""

    def __init__(self, case: Case) -> None:
        self.output: dict[str, list[dict[str, Any]]] = {}
        self.stores: dict[str, Table] = {}
        self._dropped = 0
        self.now = -1
        """Stream time: the largest timestamp that the task has processed."""
        self._sources: dict[str, list[Run]] = defaultdict(list)
        self._streams: dict[str, list[Run]] = {}
        self._tables: dict[str, Table] = {}
        self._in_order: list[Table] = []
        """All tables, upstream ones first."""
        self._grouped_tables: dict[str, tuple[Table, str]] = {}
        self._rekeyed: set[str] = set()
        self._windows: dict[str, Windows] = {}
        self._queue: deque[tuple[Run, Any, Any, int]] = deque()
        """The records in repartition topics, of which a case has one at most."""
        self._caching = case["config"].get("statestore.cache.max.bytes") != "0"
        self.idle = IdleClock(case["config"].get(IDLE))
        for step in case["topology"]:
            getattr(self, f"_{step['op']}")(step)
        if any(table.ttl_ms is not None for table in self._in_order):
            self.idle.add(lambda: self.now, self.observe)

    def played(self) -> Case:
        """Returns a player's answer, with only the fields that are compared."""
        rows = {name: sorted(table.rows.items(), key=lambda it: in_order(it[0])) for name, table in self.stores.items()}
        dropped = self._dropped + sum(each.dropped for each in self._windows.values())
        return {
            "output": self.output,
            "stores": {name: [[key, row.value] for key, row in found] for name, found in rows.items()},
            "metrics": {"dropped-records-total": float(dropped)},
        }

    # ---- what happens ----

    def happen(self, event: dict[str, Any]) -> None:
        """Processes one event: a record, or an advance of the wall clock."""
        if "advance_wall_ms" in event:
            self.idle.advance(event["advance_wall_ms"])
            self._commit()
        else:
            self.idle.record()
            for run in self._sources[event["topic"]]:
                self._take(run, event["key"], event["value"], event["ts"])
        while self._queue:
            self._take(*self._queue.popleft())

    def _take(self, run: Run, key: Any, value: Any, timestamp: int) -> None:
        self.observe(timestamp)
        run(key, value, timestamp)
        self._commit()

    def observe(self, timestamp: int) -> None:
        """Advances stream time to ``timestamp``, if that is later, and deletes what has expired by then."""
        if timestamp <= self.now:
            return
        self.now = timestamp
        for table in self._in_order:
            if table.ttl_ms is not None:
                # Deletions by upstream tables reach a table before its own time advances.
                table.now = timestamp
                for at, key in table.expired(timestamp):
                    table.put(key, None, at)

    def _commit(self) -> None:
        for table in self._in_order:
            table.commit()
        for windows in self._windows.values():
            windows.commit()

    def is_late(self, table: Table, timestamp: int) -> bool:
        """Returns True if an update of that time has expired already, and counts it as dropped."""
        late = table.ttl_ms is not None and timestamp + table.ttl_ms <= table.now
        self._dropped += late
        return late

    # ---- streams ----

    def _stream(self, step: Step) -> None:
        self._sources[step["topic"]].append(self._made(step))

    def _made(self, step: Step) -> Run:
        """Returns a function that forwards to all steps that continue from ``step``."""
        children = self._streams[step["id"]] = []

        def forward(key: Any, value: Any, timestamp: int) -> None:
            for child in children:
                child(key, value, timestamp)

        return forward

    def _on(self, step: Step, run: Run, *, rekeys: bool = False) -> None:
        """Passes the output of the step's input to ``run``, and notes if the step's keys have changed."""
        self._streams[step["in"]].append(run)
        if rekeys or step["in"] in self._rekeyed:
            self._rekeyed.add(step["id"])

    def _by_key(self, step: Step, run: Run) -> None:
        """Like ``_on``, for a ``run`` that needs all records of a key together: repartitioned if keys have changed."""
        if step["in"] in self._rekeyed:
            repartitioned = run
            run = lambda key, value, timestamp: self._queue.append((repartitioned, key, value, timestamp))  # noqa: E731
        self._streams[step["in"]].append(run)

    def _filter(self, step: Step) -> None:
        if step["in"] in self._tables:
            self._mapped_table(step, lambda key, value: value if functions.predicate(step["fn"], key, value) else None)
            return
        forward = self._made(step)
        self._on(step, lambda k, v, t: forward(k, v, t) if functions.predicate(step["fn"], k, v) else None)

    def _map_values(self, step: Step) -> None:
        if step["in"] in self._tables:
            self._mapped_table(step, lambda key, value: functions.mapped_value(step["fn"], value))
            return
        forward = self._made(step)
        self._on(step, lambda k, v, t: forward(k, functions.mapped_value(step["fn"], v), t))

    def _flat_map_values(self, step: Step) -> None:
        forward = self._made(step)

        def run(key: Any, value: Any, timestamp: int) -> None:
            for each in functions.flat(step["fn"], value):
                forward(key, each, timestamp)

        self._on(step, run)

    def _select_key(self, step: Step) -> None:
        forward = self._made(step)
        self._on(step, lambda k, v, t: forward(functions.key_of(step["fn"], k, v), v, t), rekeys=True)

    def _merge(self, step: Step) -> None:
        _of_two(step)
        forward = self._made(step)
        self._on(step, forward)
        self._on({**step, "in": step["with"]}, forward)

    def _deduplicate(self, step: Step) -> None:
        forward, within = self._made(step), step["within_ms"]
        retention = step.get("retention_ms", 2 * within)
        remembered: list[tuple[Any, Any, int]] = []
        newest = -1

        def run(key: Any, value: Any, timestamp: int) -> None:
            nonlocal newest
            id = functions.key_of(step["fn"], key, value) if "fn" in step and key is not None else key
            if key is None or id is None:
                forward(key, value, timestamp)
                return
            newest = max(newest, timestamp)
            remembered[:] = [each for each in remembered if each[2] >= newest - retention]
            if any(each[:2] == (key, id) and abs(each[2] - timestamp) <= within for each in remembered):
                return
            if timestamp >= newest - retention:
                remembered.append((key, id, timestamp))
            forward(key, value, timestamp)

        self._by_key(step, run)

    def _process(self, step: Step) -> None:
        assert step["fn"] == "alive"
        forward, table = self._made(step), self._kept(step)

        def run(key: Any, value: Any, timestamp: int) -> None:
            if key is None:
                return
            if value is None or not self.is_late(table, timestamp):
                table.put(key, None if value is None else functions.text(value), timestamp)
            forward(key, ",".join(sorted(table.rows, key=in_order)), timestamp)

        self._on(step, run, rekeys=True)  # it may have changed them

    def _to(self, step: Step) -> None:
        rows = self.output.setdefault(step["topic"], [])
        self._streams[step["in"]].append(lambda k, v, t: rows.append({"key": k, "value": v, "ts": t}))

    # ---- tables ----

    def _kept(self, step: Step) -> Table:
        cached = self._caching and step.get("caching", True) and step["op"] != "process"
        table = Table(step.get("ttl_ms"), cached)
        self._in_order.append(table)
        if step["op"] != "process":
            self.stores[step["store"]] = table
        return table

    def _table_of(self, step: Step) -> Table:
        table = self._tables[step["id"]] = self._kept(step)
        return table

    def _source_of(self, table: Table) -> Run:
        def run(key: Any, value: Any, timestamp: int) -> None:
            if key is None:
                self._dropped += 1
            elif value is None or not self.is_late(table, timestamp):
                table.put(key, value, timestamp)

        return run

    def _table(self, step: Step) -> None:
        self._sources[step["topic"]].append(self._source_of(self._table_of(step)))

    def _to_table(self, step: Step) -> None:
        self._by_key(step, self._source_of(self._table_of(step)))

    def _to_stream(self, step: Step) -> None:
        forward = self._made(step)
        self._tables[step["in"]].reported.append(lambda key, new, old, timestamp: forward(key, new, timestamp))

    def _mapped_table(self, step: Step, mapped: Callable[[Any, Any], Any]) -> None:
        source, table = self._tables[step["in"]], self._table_of(step)

        def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
            if new is not None and self.is_late(table, timestamp):
                return  # whatever the mapper makes of it
            value = None if new is None else mapped(key, new)
            if value is not None or step["op"] != "filter" or key in table.rows:
                table.put(key, value, timestamp)  # from nothing to nothing is no change of a filtered table

        source.reported.append(run)

    def _stream_table(self, step: Step) -> None:
        forward, table = self._made(step), self._tables[step["with"]]

        def run(key: Any, value: Any, timestamp: int) -> None:
            found = table.rows.get(key)
            if found is not None or step["kind"] == "left":
                forward(key, functions.pair(value, None if found is None else found.value), timestamp)

        self._by_key(step, run)

    def _table_table(self, step: Step) -> None:
        _of_two(step)
        left, right, joined = self._tables[step["in"]], self._tables[step["with"]], self._table_of(step)
        inner = step["kind"] == "inner"

        def joins(key: Any, new: Any, old: Any, timestamp: int) -> None:
            if new is None or not self.is_late(joined, timestamp):
                joined.put(key, new, timestamp, old)

        def of_left(key: Any, new: Any, old: Any, timestamp: int) -> None:
            found = right.rows.get(key)
            if found is None and (inner or (new is None and old is None)):
                return
            other, at = (None, timestamp) if found is None else (found.value, max(timestamp, found.timestamp))
            value, before = (None if each is None else functions.pair(each, other) for each in (new, old))
            joins(key, value, before, at)

        def of_right(key: Any, new: Any, old: Any, timestamp: int) -> None:
            found = left.rows.get(key)
            if found is not None:
                value, before = (
                    None if inner and each is None else functions.pair(found.value, each) for each in (new, old)
                )
                joins(key, value, before, max(timestamp, found.timestamp))

        left.reported.append(of_left)
        right.reported.append(of_right)

    # ---- aggregates ----

    def _time_window(self, step: Step) -> None:
        self._windows[step["id"]] = Windows(step, self.idle, self._caching)
        self._group_by_key(step)

    def _windowed_to_stream(self, step: Step) -> None:
        self._group_by_key(step)  # the keys are those that are shown, already

    def _group_by_key(self, step: Step) -> None:
        self._on(step, self._made(step))

    def _group_by(self, step: Step) -> None:
        if step["in"] in self._tables:
            self._grouped_tables[step["id"]] = self._tables[step["in"]], step["fn"]
        else:
            self._select_key(step)

    def _count(self, step: Step) -> None:
        self._aggregated(step, lambda value, before: (before or 0) + 1, lambda value, before: before - 1, 0)

    def _reduce(self, step: Step) -> None:
        add = partial(functions.fold, step["fn"])
        sub = partial(functions.fold, step.get("sub", ""))
        self._aggregated(step, lambda value, before: value if before is None else add(value, before), sub, None)

    def _aggregate(self, step: Step) -> None:
        add = partial(functions.fold, step["fn"])
        sub = partial(functions.fold, step.get("sub", ""))
        begin = functions.initial(step["init"])
        self._aggregated(step, lambda value, before: add(value, begin if before is None else before), sub, begin)

    def _aggregated(
        self, step: Step, add: Callable[[Any, Any], Any], sub: Callable[[Any, Any], Any], begin: Any
    ) -> None:
        """Adds an aggregate. ``begin``: the old value that Kafka Streams forwards for a new row without a cache."""
        if step["in"] in self._grouped_tables:
            self._aggregated_table(step, add, sub)
            return
        if step["in"] in self._windows:
            self._by_key(step, self._windows[step["in"]].aggregate(add, self._made(step)))
            return
        table = self._table_of(step)

        def run(key: Any, value: Any, timestamp: int) -> None:
            if key is None or value is None:
                self._dropped += 1
            elif not self.is_late(table, timestamp):
                row = table.rows.get(key, Row(None, timestamp))
                old = begin if row.value is None else row.value
                table.put(key, add(value, row.value), max(timestamp, row.timestamp), old, timestamp)

        self._by_key(step, run)

    def _aggregated_table(self, step: Step, add: Callable[[Any, Any], Any], sub: Callable[[Any, Any], Any]) -> None:
        (source, fn), table = self._grouped_tables[step["in"]], self._table_of(step)

        def change(key: Any, values: tuple[Any, Any], timestamp: int) -> None:
            new, old = values
            before = table.rows.get(key)
            value = None if before is None else before.value
            if old is not None and value is not None:
                value = sub(old, value)
            if new is not None:
                value = add(new, value)
            table.put(key, value, timestamp if before is None else max(timestamp, before.timestamp))

        def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
            to = None if new is None else functions.key_of(fn, key, new)
            was = None if old is None else functions.key_of(fn, key, old)
            if to == was:
                if to is not None:
                    self._queue.append((change, to, (new, old), timestamp))
                return
            if was is not None:
                self._queue.append((change, was, (None, old), timestamp))
            if to is not None:
                self._queue.append((change, to, (new, None), timestamp))

        source.reported.append(run)
