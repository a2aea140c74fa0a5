"""Random topologies that are built node by node, alone or behind a few steps of the DSL."""

from __future__ import annotations

from random import Random
from typing import Any

Case = dict[str, Any]
Step = dict[str, Any]

_PLAIN = ("pass", "pass", "mark:m", "mark:n", "plain", "meta")
_SCHEDULES = ("s10", "s7", "s25x2", "s10@30", "s10@5x3", "w10", "w25", "w10x2", "w20@35", "s1000", "w7")
_NAMES = ("Zeta", "alpha", "Mid", "b", "Node", "x", "Ünion", "9", "a b", "K-1", "_", "Last")


class _Nodes:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        self.parents: list[str] = []
        self.processors: list[str] = []
        self.inputs: list[str] = []
        self.stores: list[str] = []
        self.kept: list[str] = []
        self.waiting: list[Step] = []
        self.sinks = 0

    def name(self) -> str:
        """Returns a new name; some share a slot of a hash table, or sort oddly."""
        return f"{self.rng.choice(_NAMES)}{len(self.steps)}"

    def some(self, of: list[str], most: int) -> list[str]:
        return self.rng.sample(of, min(len(of), self.rng.randint(1, most)))


def generate_by_hand(seed: int, number: int) -> tuple[Case, dict[str, tuple[str, str]]]:
    """The ``number``-th case of ``seed`` without its input, and the types of the topics that it reads."""
    nodes = _Nodes(Random(f"by hand {seed}-{number}"))
    rng = nodes.rng
    if rng.random() < 0.3:
        _dsl(nodes)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _source(nodes)
    for _ in range(rng.choice((1, 2, 3, 5, 8))):
        rng.choice((_processor, _processor, _processor, _processor, _source, _kept, _shared))(nodes)
    for parents in [[parent] for parent in nodes.parents if rng.random() < 0.7] or [nodes.parents[-1:]]:
        _sink(nodes, [*parents, *(each for each in nodes.some(nodes.parents, 2) if each not in parents)])
    nodes.steps += nodes.waiting
    case = {"name": f"by_hand-{seed}-{number}", "config": {}, "topology": nodes.steps}
    return case, dict.fromkeys(nodes.inputs, ("string", "string"))


def _dsl(nodes: _Nodes) -> None:
    """A stream, one or two operators, a sink."""
    rng = nodes.rng
    nodes.inputs.append("dsl")
    nodes.steps.append({"op": "stream", "topic": "dsl", "key": "string", "value": "string", "id": "d1"})
    nodes.steps.append({"op": "filter", "in": "d1", "fn": "not_null", "named": "kept", "id": "d2"})
    if rng.random() < 0.5:
        fn = rng.choice(("twice", "last"))
        store = {"store": "dsl-store"} if fn == "last" else {}
        nodes.steps.append({"op": "process_values", "in": "d2", "fn": fn, "named": "values", **store, "id": "d3"})
        nodes.parents.append("values")
        nodes.stores += store.values()
    if rng.random() < 0.3:
        nodes.steps.append({"op": "print", "in": "d2", "id": "d4"})
    nodes.steps.append({"op": "to", "in": "d2", "topic": "dsl-out", "id": "d5"})
    nodes.parents += ["kept", "KSTREAM-SOURCE-0000000000"]


def _source(nodes: _Nodes) -> None:
    topics = [f"in{len(nodes.inputs) + each}" for each in range(nodes.rng.choice((1, 1, 1, 2)))]
    nodes.inputs += topics
    nodes.parents.append(nodes.name())
    nodes.steps.append({"op": "add_source", "name": nodes.parents[-1], "topics": topics})


def _processor(nodes: _Nodes) -> None:
    """A processor with a store, with clocks, or with nothing."""
    rng, name, parents = nodes.rng, nodes.name(), nodes.some(nodes.parents, 3)
    step: Step = {"op": "add_processor", "name": name, "parents": parents}
    match rng.choice(("plain", "plain", "count", "look", "ticks", "child")):
        case "count":
            step |= {"fn": "count", "store": f"store{len(nodes.steps)}"}
            if rng.random() < 0.5:
                step["brings"] = [step["store"], *(["spare"] if rng.random() < 0.1 and not nodes.stores else [])]
            else:
                nodes.waiting.append({"op": "add_state_store", "store": step["store"], "processors": [name]})
            nodes.stores.append(step["store"])
        case "look" if nodes.stores or nodes.kept:
            step |= {"fn": "look", "store": rng.choice(nodes.stores + nodes.kept)}
            if step["store"] in nodes.stores:
                nodes.waiting.append({"op": "connect", "processor": name, "stores": [step["store"]]})
        case "ticks":
            step["fn"] = f"ticks:{','.join(rng.choices(_SCHEDULES, k=rng.randint(1, 4)))}"
        case "child":
            child = f"child{len(nodes.steps)}"
            step["fn"] = f"{rng.choice(('to_child', 'each_child'))}:{child}"
            nodes.steps.append(step)
            nodes.steps.append({"op": "add_processor", "name": child, "fn": "meta", "parents": [name]})
            nodes.parents += [name, child]
            nodes.processors += [name, child]
            return
        case _:
            step["fn"] = rng.choice(_PLAIN)
    nodes.steps.append(step)
    nodes.parents.append(name)
    nodes.processors.append(name)


def _kept(nodes: _Nodes) -> None:
    """A store that is kept from a topic, for all or by partition."""
    number = len(nodes.steps)
    topic, store = f"kept{number}", f"kept-store{number}"
    op = nodes.rng.choice(("add_global_store", "add_read_only_state_store"))
    names = {"source": nodes.name(), "processor": f"{nodes.name()}-keeps"}
    nodes.steps.append({"op": op, "store": store, "topic": topic, **names})
    nodes.inputs.append(topic)
    (nodes.kept if op == "add_global_store" else nodes.stores).append(store)


def _shared(nodes: _Nodes) -> None:
    """A processor that is connected with a store it may not use."""
    if nodes.stores and nodes.processors:
        processor, stores = nodes.rng.choice(nodes.processors), nodes.some(nodes.stores, 2)
        nodes.waiting.append({"op": "connect", "processor": processor, "stores": stores})


def _sink(nodes: _Nodes, parents: list[str]) -> None:
    nodes.sinks += 1
    topic = f"out{nodes.rng.randint(1, nodes.sinks)}"
    nodes.steps.append({"op": "add_sink", "name": nodes.name(), "topic": topic, "parents": parents})
