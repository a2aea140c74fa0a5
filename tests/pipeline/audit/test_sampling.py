"""A sample of keys: who may be audited by one, and that both sides take the same keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.pipeline.audit.audit import AuditOptions
from penstock.pipeline.audit.sampling import refusal_of_sample
from penstock.state.key_sample import KeySample
from penstock.tasks.program import TaskProgram
from tests.pipeline.audit.rig import Application
from tests.pipeline.audit.test_audit import LONG, STRING, consumed, keyed, windows, word_count

OTHER_BYTES: Any = ps.Materialized.as_("counts").with_key_serde(ps.Serdes.integer())
CONFIG = StreamsConfig.of({"application.id": "app"})
Build = Callable[[ps.StreamsBuilder], object]


def refusal(topology: ps.Topology) -> str | None:
    programs = {sub.id: TaskProgram.of([sub], CONFIG) for sub in topology.subtopologies}
    return refusal_of_sample(programs, topology.repartition_topics)


def built(build: Build) -> ps.Topology:
    builder = ps.StreamsBuilder()
    build(builder)
    return builder.build()


def counted(stream: ps.KStream[str, str]) -> object:
    return stream.group_by_key().count(ps.Materialized.as_("counts"))


def joined(builder: ps.StreamsBuilder) -> None:
    table = builder.table("other", consumed(), materialized=ps.Materialized.as_("table"))
    with_table = builder.stream("in", consumed()).filter(lambda k, v: True).join(table, lambda v, other: v + other)
    counted(with_table)


class Remembering(ps.Processor[str, str, str, str]):
    def process(self, record: ps.Record[str, str]) -> None:
        """Keeps what it likes, of any key."""


def processed(builder: ps.StreamsBuilder) -> None:
    store = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("own"), STRING, STRING)
    builder.add_state_store(store)
    builder.stream("in", consumed()).process(Remembering, "own")


@pytest.mark.parametrize("build", [lambda builder: counted(builder.stream("in", consumed())), joined])
def test_rows_that_depend_on_the_records_of_their_key_alone_can_be_sampled(build: Build) -> None:
    assert refusal(built(build)) is None


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (word_count(), "records get other keys on their way through repartition topic"),
        (windows(), "depends on stream time"),
        (built(processed), "may keep something of other keys"),
        (
            built(
                lambda builder: builder.table(
                    "in", consumed(), materialized=ps.Materialized.as_("t").with_ttl(timedelta(1))
                )
            ),
            "depends on stream time",
        ),
        (
            built(lambda builder: builder.stream("in", consumed()).group_by_key().count(OTHER_BYTES)),
            "may write keys as other bytes",
        ),
    ],
)
def test_others_are_refused_with_the_reason(topology: ps.Topology, reason: str) -> None:
    refused = refusal(topology)
    assert refused is not None
    assert reason in refused


def test_about_as_many_keys_as_asked_for_are_in_a_sample() -> None:
    sample = KeySample(10_000)
    assert 800 < sum(sample.has(f"key-{number}".encode()) for number in range(100_000)) < 1200


def test_an_audit_of_a_sample_compares_its_keys_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(built(lambda builder: counted(builder.stream("in", consumed()))), tmp_path, ["in"])
    keys = [f"k{number}" for number in range(200)]
    for number in range(600):
        app.send("in", keys[number % 200], b"x", number, number % 2)
    app.settle()
    sample = KeySample(300_000)
    inside = [key for key in keys if sample.has(key.encode())]
    outside = next(key for key in keys if key not in inside)
    options = AuditOptions(sample)
    report = app.audit(monkeypatch, options=options)
    assert report.is_clean
    assert report.stores[0].found == report.stores[0].expected == len(inside)
    wrong = b"\0\0\0\0\0\0\0\5" + LONG.serialize(1)
    assert app.audit(monkeypatch, {"counts": keyed(outside, wrong)}, options).is_clean
    assert not app.audit(monkeypatch, {"counts": keyed(inside[0], wrong)}, options).is_clean


def test_an_audit_of_a_sample_that_would_tell_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(word_count(), tmp_path, ["lines"])
    with pytest.raises(ConfigError, match="--sample: records get other keys"):
        app.audit(monkeypatch, options=AuditOptions(KeySample(10_000)))
