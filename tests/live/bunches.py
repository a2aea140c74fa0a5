"""Many parity cases as one program: an application takes seconds to start, a case has forty records."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers
from penstock.topology.physical.topology import SinkNode, Topology, internal_topic
from tests.parity.build import SERDES, Built, build
from tests.parity.ops_own import IDLE

Case = dict[str, Any]

PARTITIONS = 4
_DAY_MS = 86_400_000
BASE_MS = int(time.time() * 1000) // _DAY_MS * _DAY_MS
"""Today's midnight is added to the times of cases, which are near 0: the changelog of a window store loses what is
older, by the broker's clock, than its retention and a day."""

_NAMES = ("topic", "store", "name", "named", "source", "processor")
_IDS = ("id", "in", "with")
_LISTS = ("topics", "ids", "parents", "processors", "stores", "brings")
_OF_CHILDREN = ("to_child", "each_child")
"""Functions of processors whose arguments are names of nodes."""


@dataclass(frozen=True)
class Input:
    """A record of a case, as bytes. ``partition``: the one that the producer chooses, by key or else in turn."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


@dataclass(frozen=True)
class Bunch:
    """Cases that run as one application. ``paced``: some of them look for closed windows once a second at most.

    Each topic has that many ``partitions``. Without ``caching`` every update goes downstream, so that all records can
    be compared, not only the last ones.
    """

    name: str
    config: Mapping[str, Any]
    cases: tuple[Case, ...]
    paced: bool
    caching: bool = False
    partitions: int = PARTITIONS

    @property
    def idle(self) -> bool:
        """True if time advances in it while no records come."""
        return IDLE in self.config

    @cached_property
    def built(self) -> Built:
        """One topology of all cases; names begin with that of the case."""
        return build({"config": self.config, "topology": [step for case in self.cases for step in steps_of(case)]})

    def inputs(self, case: Case) -> list[Input]:
        """Returns the records of a case in order, without the advances of the wall clock."""
        records = (record for record in case["input"] if "topic" in record)
        return [self._input(case, number, record) for number, record in enumerate(records)]

    def _input(self, case: Case, number: int, record: dict[str, Any]) -> Input:
        topic = prefixed(case, record["topic"])
        types = self.built.inputs[topic]
        key, value = (
            None if part is None else SERDES[type].serialize(part)
            for part, type in zip((record["key"], record["value"]), types, strict=True)
        )
        partition = number % self.partitions if key is None else partition_for(key, self.partitions)
        headers = [(name, text.encode()) for name, text in record.get("headers", {}).items()]
        return Input(topic, partition, key, value, record["ts"] + BASE_MS, headers)

    @cached_property
    def topics(self) -> set[str]:
        """The topics that the application reads and writes, without internal topics."""
        return {*self.built.inputs, *(topic for topic, _, _ in self.built.sinks)}

    @property
    def stores(self) -> list[str]:
        """The stores whose content is compared: those that some node uses."""
        return [name for name in self.built.stores if name in self.built.topology.store_builders]


def prefixed(case: Case, name: str) -> str:
    """Returns a name of ``case`` as it is in its bunch."""
    return f"{case['name']}_{name}"


def steps_of(case: Case) -> Iterator[dict[str, Any]]:
    """Yields the steps of a case's topology as they are in its bunch."""
    for step in case["topology"]:
        renamed = dict(step)
        for field in (*_NAMES, *_IDS):
            if field in step:
                renamed[field] = prefixed(case, step[field])
        for field in _LISTS:
            if field in step:
                renamed[field] = [prefixed(case, name) for name in step[field]]
        function, _, names = step.get("fn", "").partition(":")
        if function in _OF_CHILDREN:
            renamed["fn"] = f"{function}:{','.join(prefixed(case, name) for name in names.split(','))}"
        if "parts" in step:
            renamed["parts"] = [{**part, "in": prefixed(case, part["in"])} for part in step["parts"]]
        yield renamed


def paced(case: Case) -> bool:
    """Returns True if an operator of the case looks for closed windows only once in a second of the wall clock."""
    return any(
        step.get("emit_final") or (step["op"] == "stream_stream" and step["kind"] != "inner")
        for step in case["topology"]
    )


def shape_of(case: Case) -> str:
    """Returns the shape of a case: the beginning of its name."""
    shape: str = case["name"].rsplit("-", 2)[0]
    return shape


def bunches(cases: Iterable[Case], size: int) -> Iterator[Bunch]:
    """Yields the cases in applications of about ``size``: separate by configuration, paced cases by themselves."""
    kinds: dict[tuple[str, bool], list[Case]] = defaultdict(list)
    for case in cases:
        kinds[json.dumps(case["config"], sort_keys=True), paced(case)].append(case)
    numbers = itertools.count()
    for (config, slow), alike in kinds.items():
        count = -(-len(alike) // size)
        for first in range(count):
            yield Bunch(f"bunch-{next(numbers)}", json.loads(config), tuple(alike[first::count]), slow)


def owners(topology: Topology, application_id: str, cases: Iterable[Case]) -> dict[str, str]:
    """Returns the name of the case of every topic and internal topic of a bunch."""
    by_topic: dict[str, str] = {}
    names = [case["name"] for case in cases]
    waiting = list(topology.every_subtopology)
    while waiting:
        left = []
        for sub in waiting:
            read = {topic for source in sub.sources for topic in source.topics}
            read |= {internal_topic(application_id, topic) for topic in read}
            owner = next((by_topic[topic] for topic in read if topic in by_topic), None)
            owner = owner or next((name for name in names if any(topic.startswith(f"{name}_") for topic in read)), None)
            if owner is None:
                left.append(sub)
                continue
            written = {node.topic for node in sub.nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
            changelogs = {internal_topic(application_id, f"{store.name}-changelog") for store in sub.stores}
            by_topic.update(dict.fromkeys((*read, *written, *changelogs), owner))
            by_topic.update({internal_topic(application_id, topic): owner for topic in written})
        if len(left) == len(waiting):
            raise AssertionError(f"sub-topologies of no case: {[sub.id for sub in left]}")
        waiting = left
    return by_topic
