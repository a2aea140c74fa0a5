"""Tasks on a stream actor whose schema registry is away when they begin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from structlog.testing import capture_logs

import penstock as ps
from penstock.common.ids import TaskId
from penstock.common.serdes import bound
from penstock.testing.fake_broker import FakeRecord
from tests.actors.rig import STRING, Rig, settle


@dataclass
class Item:
    name: str


ITEMS = ps.Serdes.avro(Item)


def copying(state_dir: Path, registry: ps.MockSchemaRegistry) -> Rig:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, ITEMS)).to("out", ps.Produced.with_(STRING, ITEMS))
    return Rig(state_dir, builder.build(), partitions=1, schema_registry_url=f"mock://{registry.scope}")


def test_a_task_waits_until_its_schemas_are_registered_and_then_takes_records(
    tmp_path: Path, registry: ps.MockSchemaRegistry, config: dict[str, str]
) -> None:
    data = bound(ITEMS, "in", "value", config).serialize(Item("tea"))
    rig = copying(tmp_path, registry)
    rig.broker.append("in", FakeRecord(b"k", data, 1, None), 0)
    with capture_logs() as lines:
        with registry.outage():
            loop = rig.loop()
            rig.assign(loop, 1, TaskId(0, 0))
            for _ in range(3):
                settle(loop)
            assert not loop.finished.done()
            assert registry.subjects == ["in-value"]
            assert rig.broker.records("out") == []
        settle(loop)
        rig.commit(loop)
    assert registry.subjects == ["in-value", "out-value"]
    assert [record.value for record in rig.broker.records("out")] == [data]
    waited = [line for line in lines if "waiting for the broker, a schema registry" in line["event"]]
    assert len(waited) == 1
    assert "does not answer" in waited[0]["error"]
