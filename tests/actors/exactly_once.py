"""Programs and rigs under ``exactly_once_v2``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock as ps
from penstock.common.ids import TaskId
from penstock.common.topics import NewTopic
from tests.actors.rig import APPLICATION, LONG, STRING, Rig

TASK = TaskId(0, 0)
EXACTLY: dict[str, Any] = {"processing_guarantee": "exactly_once_v2"}


def counting(store: Any, caching: bool) -> ps.Topology:
    """Counts in ``counts`` and doubles in ``doubled``, which is kept by another kind of store."""
    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_(store)
    kept = kept.with_caching_enabled() if caching else kept.with_caching_disabled()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(kept)
    doubled: Any = ps.Materialized.as_("doubled").with_value_serde(LONG).with_caching_disabled()
    counts.map_values(lambda value: 2 * value, doubled).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


SHAPES = {
    "cached": lambda: counting("counts", True),
    "uncached": lambda: counting("counts", False),
    "in memory": lambda: counting(ps.Stores.in_memory_key_value_store("counts"), False),
}


def application(tmp_path: Path, shape: str = "uncached", **config: Any) -> Rig:
    rig = Rig(tmp_path / "0", SHAPES[shape](), commit_interval_ms=1000, **EXACTLY, **config)
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-doubled-changelog", rig.partitions)])
    return rig


DAY_MS = 86_400_000


class Ticker(ps.Processor[str, str, str, str]):
    """Forwards a record by the wall clock."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        context.schedule(
            1000,
            ps.PunctuationType.WALL_CLOCK_TIME,
            lambda now_ms: context.forward(ps.Record("tick", "x", now_ms)),
        )

    def process(self, record: ps.Record[str, str]) -> None:
        """It only ticks."""


def processing(tmp_path: Path, processor: type[ps.Processor[str, str, str, str]], **config: Any) -> Rig:
    builder = ps.StreamsBuilder()
    processed = builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(processor)
    processed.to("out", ps.Produced.with_(STRING, STRING))
    return Rig(tmp_path, builder.build(), commit_interval_ms=1000, **EXACTLY, **config)
