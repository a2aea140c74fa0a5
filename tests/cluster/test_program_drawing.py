"""The view of a program: its operators with the user's functions."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import orjson

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.program_view import FunctionView, ProgramView
from penstock.cluster.programs.program_drawing import program_view
from penstock.common.config import StreamsConfig
from tests.actors.rig import count_topology

TEXT = ps.Serdes.string()
HOSTILE = '<img src=x onerror="alert(1)">\u202e\u0000\n"&'


class Sum:
    """An aggregate of the user's."""

    total = 0


class Log(ps.Processor[Any, Any, Any, Any]):
    """A processor of the user's."""

    def process(self, record: ps.Record[Any, Any]) -> None:
        """Nothing."""


def view_of(topology: ps.Topology, generation: int = 1) -> ProgramView:
    config = StreamsConfig.of({"application.id": "app"})
    return program_view(ApplicationSpec(topology, config), generation)


def functions_of(view: ProgramView) -> dict[str, tuple[str, ...]]:
    return {f"{name} {each.role}": (each.name,) for name, it in view.operators.items() for each in it.functions}


def choose(key: Any, value: Any, context: Any) -> str:
    return "out"


def partition(topic: str, key: Any, value: Any, partitions: int) -> int:
    return 0


def test_functions_are_named_by_their_part_in_the_call() -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(TEXT, TEXT))
    stream.group_by_key().aggregate(Sum, lambda _, value, so_far: so_far, named="sum")
    stream.process(Log, named="log")
    stream.map_values(functools.partial(str.replace, "a"), named="partial")
    stream.to(choose, ps.Produced(TEXT, TEXT, partition, "sink"))
    view = view_of(builder.build())
    assert functions_of(view) == {
        "sum initializer": ("Sum",),
        "sum aggregator": ("test_functions_are_named_by_their_part_in_the_call.<locals>.<lambda>",),
        "log supplier": ("Log",),
        "partial mapper": ("str.replace",),
        "sink topic": ("choose",),
        "sink partitioner": ("partition",),
    }
    (of_class,) = [each for each in view.operators["sum"].functions if each.role == "initializer"]
    assert of_class.file == __file__
    assert Path(__file__).read_text().splitlines()[(of_class.line or 0) - 1] == "class Sum:"
    assert view.operators["partial"].functions == (FunctionView("mapper", "str.replace", None, None),)
    assert view.operators["sink"].topics == (), "a function names them"


def test_boxes_of_topics_have_the_names_of_kafka() -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(TEXT, TEXT)).repartition(ps.Repartitioned.as_("by-key"))
    stream.to("out", ps.Produced.with_(TEXT, TEXT))
    stream.to(choose, ps.Produced.with_(TEXT, TEXT))
    boxes = view_of(builder.build()).picture.boxes
    assert {box.name: box.topic for box in boxes if box.kind in ("topic", "repartition")} == {
        "in": "in",
        "by-key-repartition": "app-by-key-repartition",
        "out": "out",
        "choose": None,
    }
    assert {box.topic for box in boxes if box.kind not in ("topic", "repartition")} == {None}


def test_functions_of_penstock_are_not_the_users() -> None:
    assert functions_of(view_of(count_topology())) == {}


def test_the_fingerprint_is_of_the_topology_alone() -> None:
    def build(add: Any) -> ps.Topology:
        builder = ps.StreamsBuilder()
        add(builder.stream("in", ps.Consumed.with_(TEXT, TEXT))).to("out", ps.Produced.with_(TEXT, TEXT))
        return builder.build()

    one = view_of(build(lambda stream: stream.map_values(str.upper)))
    other = view_of(build(lambda stream: stream.map_values(str.lower)), generation=2)
    third = view_of(build(lambda stream: stream.filter(lambda value: True)))
    assert one.fingerprint == other.fingerprint != third.fingerprint
    assert (one.generation, other.generation) == (1, 2)


def test_hostile_names_stay_data() -> None:
    def hostile(value: str) -> str:
        return value

    hostile.__qualname__ = HOSTILE
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(TEXT, TEXT)).map_values(hostile).to("out", ps.Produced.with_(TEXT, TEXT))
    body = json.loads(orjson.dumps(view_of(builder.build())))
    (function,) = [each for it in body["operators"].values() for each in it["functions"]]
    assert function["name"] == HOSTILE
