"""A record that cannot be written names the operator that has made it, and the record that it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import MAX_RECORD_BYTES
from tests.actors.rig import APPLICATION, STRING, Rig, settle


def enlarging(state_dir: Path, times: int) -> Rig:
    """Each record ``times`` as large, to ``out``; and in a store."""
    builder = ps.StreamsBuilder()
    large = builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(lambda value: value * times)
    large.to("out", ps.Produced.with_(STRING, STRING).with_name("large"))
    large.to_table(ps.Materialized.as_("kept").with_key_serde(STRING).with_value_serde(STRING))
    rig = Rig(state_dir, builder.build(), partitions=1, commit_interval_ms=1000)
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-kept-changelog", 1)])
    return rig


def end_of(rig: Rig) -> str:
    loop = rig.running()
    rig.write("in", ("small", "", 1), ("k", "x", 2), partition=0)
    rig.commit(loop)
    return loop.finished.result() or ""


def test_a_record_that_the_client_finds_too_large_names_the_operator_and_the_input(tmp_path: Path) -> None:
    reported = end_of(enlarging(tmp_path, MAX_RECORD_BYTES + 1))
    assert "too large" in reported
    assert "[operator large; topic in, partition 0, offset 1; key b'k']" in reported


@pytest.mark.parametrize(
    ("topic", "writer"), [("out", "operator large"), (f"{APPLICATION}-kept-changelog", "operator store kept")]
)
def test_a_record_that_the_broker_refuses_is_reported_with_its_writer_and_offset_range(
    topic: str, writer: str, tmp_path: Path
) -> None:
    rig = enlarging(tmp_path, 2000)
    rig.broker._configs[topic] = {"max.message.bytes": "1000"}
    loop = rig.running()
    rig.write("in", ("small", "", 1), partition=0)
    settle(loop)
    rig.commit(loop)
    rig.write("in", ("k", "x", 2), partition=0)
    settle(loop)
    rig.commit(loop)
    reported = loop.finished.result() or ""
    assert f"the record cannot be written to topic '{topic}'" in reported
    assert "it came from an input record after the last commit: in-0 from offset 1 on" in reported
    assert writer in reported
