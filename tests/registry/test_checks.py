"""Schemas that refer to others, as `penstock schema check` compares them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import penstock as ps
from penstock.common.serdes import bound
from penstock.registry.contracts import Reference, RegisteredSchema, Schema
from penstock.registry.serde import Records, within
from tests.registry.messages import Order

Config = dict[str, Any]


@dataclass
class Line:
    cents: int


@dataclass
class Basket:
    line: Line


def records(serde: ps.Serde[Any], config: Config) -> Records:
    found = within(bound(serde, "orders", "value", config))
    assert found is not None
    assert found.records is not None
    return found.records


def test_references_of_the_program_have_the_versions_that_the_registry_knows(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A registry refuses a reference to a version that does not exist, such as 0.
    asked: list[Schema] = []

    def conflicts(self: ps.MockSchemaRegistry, subject: str, schema: Schema) -> list[str]:
        asked.append(schema)
        return []

    monkeypatch.setattr(ps.MockSchemaRegistry, "conflicts", conflicts)
    assert records(ps.Serdes.protobuf(Order), config).conflicts(written=True) == []
    assert asked == []  # the imported file is not registered yet: nothing can be asked
    bound(ps.Serdes.protobuf(Order), "others", "value", config).prepare()
    assert records(ps.Serdes.protobuf(Order), config).conflicts(written=True) == []
    assert [each.references for each in asked] == [(Reference("shop/address.proto", "shop/address.proto", 1),)]


def test_the_newest_version_of_a_topic_may_refer_to_others(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "cents", "type": "long"}]}
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "line", "type": "Line"}]}
    registry.register("line", Schema(json.dumps(line)), False)
    newest = Schema(json.dumps(basket), "AVRO", (Reference("Line", "line", 1),))
    monkeypatch.setattr(ps.MockSchemaRegistry, "latest", lambda self, subject: RegisteredSchema(7, 1, subject, newest))
    assert records(ps.Serdes.avro(Basket), config).conflicts(written=False) == []
