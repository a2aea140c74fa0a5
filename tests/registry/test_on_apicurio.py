"""A real registry answers as the mock does, and serdes work with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

import penstock as ps
from penstock.common import may_wait
from penstock.common.serdes import bound
from penstock.registry import confluent
from penstock.registry.confluent import ConfluentRegistry
from penstock.registry.contracts import Schema, SchemaNotFoundError, SchemaRefusedError
from tests.registry.apicurio import apicurio
from tests.registry.evolutions import EVOLUTIONS, Evolution
from tests.registry.messages import Address, Order
from tests.registry.proto_text import text_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.submission, pytest.mark.xdist_group("apicurio")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as url, pytest.MonkeyPatch.context() as patched:
        # A Java that begins beside other work may take longer than ten seconds.
        patched.setattr(confluent, "_TIMEOUT_S", PATIENCE_S)
        for name in ("to_read_s", "to_write_s"):
            patched.setattr(may_wait._Thread, name, PATIENCE_S)
        yield url


@dataclass
class Item:
    name: str
    cents: int | None = None


def test_it_accepts_and_refuses_the_evolutions_that_the_mock_does(server: str) -> None:
    wrong = [
        each.name for number, each in enumerate(EVOLUTIONS) if answer(server, each, f"s{number}") != expected(each)
    ]
    assert wrong == []


def expected(evolution: Evolution) -> bool:
    return evolution.accepted != bool(evolution.differs)


def answer(server: str, evolution: Evolution, subject: str) -> bool:
    """Returns True if the server accepts the last version. Its check and its registration must agree."""
    registry = ConfluentRegistry(server, {})
    *earlier, last = (as_text(each) for each in evolution.versions)
    with SchemaRegistryClient({"url": server, "timeout": PATIENCE_S}) as control:
        for each in earlier:
            registry.register(subject, each, False)
            control.set_compatibility(subject, "NONE")
        control.set_compatibility(subject, evolution.level)
    fits = registry.conflicts(subject, last) == []
    try:
        registry.register(subject, last, False)
    except SchemaRefusedError:
        assert not fits
        return False
    assert fits or len(earlier) > 1, "asked for a check, Apicurio compares with all versions, whatever the level"
    return True


def as_text(schema: Schema) -> Schema:
    return Schema(text_of(schema.text), "PROTOBUF") if schema.type == "PROTOBUF" else schema


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (ps.Serdes.avro(Item), Item("tea", 250)),
        (ps.Serdes.json_schema(Item), Item("tea", 250)),
        (ps.Serdes.protobuf(Order), Order(id=1, to=Address(city="Rome"))),
        (ps.Serdes.list(ps.Serdes.avro(str)), ["a", None]),
    ],
    ids=lambda value: str(value),
)
def test_a_record_is_read_by_another_client(serde: ps.Serde[Any], value: Any, server: str) -> None:
    config = {"schema.registry.url": server}
    writer = bound(serde, f"topic-{serde.name}", "value", config)
    writer.prepare()
    data = writer.serialize(value)
    # A setting more, which makes it another client with nothing in mind.
    reader = bound(serde, f"topic-{serde.name}", "value", {**config, "basic.auth.user.info": "a:b"})
    assert reader.deserialize(data) == value


def test_an_unknown_id_is_not_found(server: str) -> None:
    with pytest.raises(SchemaNotFoundError, match="has no schema id 999999"):
        ConfluentRegistry(server, {}).schema(999_999)


def test_the_latest_version_and_a_subject_without_any(server: str) -> None:
    registry = ConfluentRegistry(server, {})
    registry.register("latest-value", Schema('"string"'), False)
    assert registry.latest("latest-value").schema.text == '"string"'
    with pytest.raises(SchemaNotFoundError):
        registry.latest("nothing-value")
