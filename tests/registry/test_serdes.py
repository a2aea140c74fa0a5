"""Serdes of a schema registry: types, schemas, generic records, subjects, and what they refuse."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, IntEnum
from typing import Annotated, Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel
from ray import cloudpickle

import penstock as ps
from penstock.common.serdes import bound
from penstock.registry.avro_types import schema_of
from penstock.registry.contracts import Schema
from tests.registry.messages import Basket, Order

pickler: Any = cloudpickle  # Ray's has no types
Config = dict[str, Any]


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Level(IntEnum):
    LOW = 1


@dataclass
class Address:
    city: str
    zip: str | None = None


@dataclass
class Sale:
    id: int
    price: float
    size: Size
    level: Level
    at: datetime
    day: date
    key: UUID
    raw: bytes
    to: Address
    others: list[Address] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    local: Annotated[datetime, msgspec.Meta(tz=False)] = datetime(2026, 1, 2)
    next: Sale | None = None


@dataclass
class Parcel:
    name: str
    size: Size


@dataclass(frozen=True)
class Item:
    name: str
    cents: int = 0
    weight: float = 1.0
    fresh: bool = True


class Struct(msgspec.Struct, rename="camel"):
    full_name: str
    n: int = 3


class Typed(TypedDict):
    a: int


class Model(BaseModel):
    a: int = 1


SALE = Sale(
    1, 2.5, Size.LARGE, Level.LOW, datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2), UUID(int=5), b"\0\xff",
    Address("Rome"), [Address("Bern", "3000")], {"x": 1}, datetime(2026, 1, 2, 3), None,
)  # fmt: skip


def of(serde: ps.Serde[Any], config: Config, topic: str = "sales", part: Any = "value") -> Any:
    return bound(serde, topic, part, config)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Sale, SALE), (Item, Item("tea")), (Struct, Struct("a b")), (Typed, {"a": 1}), (str, "ë"), (int, 1 << 62),
        (list[int], [1, 2]), (dict[str, Item], {"a": Item("b")}),
    ],
)  # fmt: skip
def test_avro_brings_back_an_object_of_its_type(kind: Any, value: Any, config: Config) -> None:
    serde = of(ps.Serdes.avro(kind), config)
    back = serde.deserialize(serde.serialize(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("kind", "value"), [(Item, Item("tea")), (Struct, Struct("a b")), (Model, Model(a=2)), (list[Item], [Item("a")])]
)
def test_json_schema_brings_back_an_object_of_its_type(kind: Any, value: Any, config: Config) -> None:
    serde = of(ps.Serdes.json_schema(kind), config)
    assert serde.deserialize(serde.serialize(value)) == value


def test_the_avro_schema_of_a_type() -> None:
    found = msgspec.json.decode(schema_of(Sale))
    fields = {each["name"]: each for each in found["fields"]}
    assert (found["type"], found["name"]) == ("record", "Sale")
    assert fields["size"]["type"] == {"type": "enum", "name": "Size", "symbols": ["small", "large"]}
    assert fields["level"]["type"] == "long"
    assert fields["at"]["type"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["others"]["type"] == {"type": "array", "items": "Address"}
    assert fields["others"]["default"] == []
    assert fields["next"] == {"name": "next", "type": ["null", "Sale"], "default": None}
    assert "default" not in fields["local"], "JSON has no form for it"


@dataclass
class Defaults:
    a: str | None
    b: str | None = "x"
    c: bytes = b"\xff"
    d: Size = Size.SMALL


def test_the_default_of_a_field_is_that_of_its_schema() -> None:
    assert msgspec.json.decode(schema_of(Defaults))["fields"] == [
        {"name": "a", "type": ["null", "string"]},
        {"name": "b", "type": ["string", "null"], "default": "x"},
        {"name": "c", "type": "bytes", "default": "ÿ"},
        {"name": "d", "type": {"type": "enum", "name": "Size", "symbols": ["small", "large"]}, "default": "small"},
    ]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (set[int], "there is no Avro form for Set"),
        (dict[int, str], "there is no Avro form for Dict"),
        (Item | Address, "may not contain more than one dataclass"),
        (object, "there is no Avro form for"),
    ],
)
def test_a_type_without_an_avro_schema_is_refused_with_what_to_do(kind: Any, why: str) -> None:
    with pytest.raises(ps.TopologyError, match=rf"Serdes\.avro\(.*{why}.*(pass the schema|or use dicts)"):
        ps.Serdes.avro(kind)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Item("a", 1.5), r"Expected `int`, got `float` - at `\$\.cents`"),  # type: ignore[arg-type]
        (Item("a", 1 << 63), "int too large|OverflowError"),
        (Item("a", 1, 1.0, "no"), r"Expected `bool`, got `str` - at `\$\.fresh`"),  # type: ignore[arg-type]
        (Item(None), r"Expected `str`, got `null` - at `\$\.name`"),  # type: ignore[arg-type]
        (Address("a"), r"a Item is expected, not Address\(.*\(Address\)"),
        ({"name": "a"}, r"a Item is expected, not \{'name': 'a'\} \(dict\)"),
    ],
)
@pytest.mark.parametrize("after_a_good_one", [False, True])
def test_a_value_of_another_type_than_declared_is_refused_and_not_cut(
    value: Any, why: str, after_a_good_one: bool, config: Config
) -> None:
    serde = of(ps.Serdes.avro(Item), config)
    if after_a_good_one:
        serde.serialize(Item("a"))
    with pytest.raises(ps.SerializationError, match=rf"avro\(Item\): subject sales-value: .*({why})"):
        serde.serialize(value)


def test_an_int_may_stand_for_a_float(config: Config) -> None:
    serde = of(ps.Serdes.avro(Item), config)
    assert serde.deserialize(serde.serialize(Item("a", weight=2))).weight == 2.0


def test_an_int_remains_one_where_a_float_may_stand_too(config: Config) -> None:
    @dataclass
    class Figure:
        number: float | int = 1.5

    serde = of(ps.Serdes.avro(Figure), config)
    for number in ((1 << 60) + 1, 2, 2.0):
        found = serde.deserialize(serde.serialize(Figure(number))).number
        assert (found, type(found)) == (number, type(number))


def test_a_time_without_a_zone_is_refused(config: Config) -> None:
    @dataclass
    class Event:
        at: datetime
        n: int = 0

    serde = of(ps.Serdes.avro(Event), config)
    with pytest.raises(ps.SerializationError, match=r"has no time zone: use datetime\.now\(UTC\)"):
        serde.serialize(Event(datetime(2026, 1, 2)))


SCHEMA = {
    "type": "record", "name": "Item", "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}, {"name": "cents", "type": "int"}],
}  # fmt: skip


def test_a_schema_alone_reads_and_writes_dicts(config: Config, registry: ps.MockSchemaRegistry) -> None:
    serde = of(ps.Serdes.avro(schema=SCHEMA), config)
    assert serde.name == "avro(shop.Item)"
    assert serde.deserialize(serde.serialize({"name": "a", "cents": 1})) == {"name": "a", "cents": 1}
    with pytest.raises(
        ps.SerializationError, match=r"shop\.Item\.cents is <1\.5> of type <class 'float'> expected int"
    ):
        serde.serialize({"name": "a", "cents": 1.5})


def test_a_type_may_have_a_schema_of_the_users(config: Config) -> None:
    serde = of(ps.Serdes.avro(Item, schema=SCHEMA), config)
    assert serde.deserialize(serde.serialize(Item("a", 7))) == Item("a", 7)
    for cents in (1 << 31, -(1 << 31) - 1):  # of which Java could not read the bytes
        with pytest.raises(ps.SerializationError, match=rf"shop\.Item\.cents is <{cents}> .* expected int"):
            serde.serialize(Item("a", cents))


def test_a_generic_record_is_written_with_the_schema_that_it_was_read_with(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    data = of(ps.Serdes.avro(schema=SCHEMA), config).serialize({"name": "a", "cents": 1})
    record = of(ps.Serdes.avro(), config).deserialize(data)
    assert record == {"name": "a", "cents": 1}
    assert isinstance(record, ps.GenericRecord)
    assert of(ps.Serdes.avro(), config, "app-store-changelog").serialize(record) == data
    assert registry.subjects == ["app-store-changelog-value", "sales-value"]
    copy = pickle.loads(pickle.dumps(record))
    assert (copy, copy.schema) == (record, record.schema)


def test_a_dict_without_a_schema_is_refused_with_what_to_do(config: Config) -> None:
    with pytest.raises(ps.SerializationError, match=r"pass a type or schema=…, or set use\.latest\.version=True"):
        of(ps.Serdes.avro(), config).serialize({"a": 1})


def test_json_of_a_schema_is_checked(config: Config) -> None:
    schema = {"title": "Item", "type": "object", "properties": {"n": {"type": "integer"}}}
    serde = of(ps.Serdes.json_schema(schema=schema), config)
    assert serde.deserialize(serde.serialize({"n": 1})) == {"n": 1}
    with pytest.raises(ps.SerializationError, match=r"'x' is not of type 'integer' - at `\$\.n`"):
        serde.serialize({"n": "x"})
    with pytest.raises(ps.SerializationError, match=r"schema id 1 of subject sales-value: 'x' is not of type"):
        serde.deserialize(b'\0\0\0\0\1{"n":"x"}')


def test_objects_of_a_json_schema_are_closed_so_that_properties_can_be_added(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    of(ps.Serdes.json_schema(dict[str, Item]), config).prepare()
    schema = msgspec.json.decode(registry.schema(1).text)
    assert schema["definitions"]["Item"]["additionalProperties"] is False
    assert schema["additionalProperties"] == {"$ref": "#/definitions/Item"}


def test_a_message_of_another_class_is_refused(config: Config) -> None:
    with pytest.raises(ps.SerializationError, match="a Order is expected, not"):
        of(ps.Serdes.protobuf(Order), config).serialize(Basket())
    with pytest.raises(ps.TopologyError, match="a class that protoc has generated is expected"):
        ps.Serdes.protobuf(Item)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\1\0\0\0\1x", b"{}....."])
def test_bytes_that_no_registry_serde_wrote_are_refused(data: bytes, config: Config) -> None:
    with pytest.raises(ps.SerializationError, match=r"avro\(Item\): a record of a schema registry begins with a zero"):
        of(ps.Serdes.avro(Item), config).deserialize(data)


@pytest.mark.parametrize("cut", [5, 6, 10])
@pytest.mark.parametrize(
    ("serde", "value"), [(ps.Serdes.avro(Item), Item("tea" * 5)), (ps.Serdes.json_schema(Item), Item("tea" * 5))]
)
def test_a_record_that_is_cut_off_is_refused(serde: ps.Serde[Any], value: Any, cut: int, config: Config) -> None:
    made = of(serde, config)
    with pytest.raises(ps.SerializationError, match=r"schema id 1 of subject sales-value: "):
        made.deserialize(made.serialize(value)[:cut])


def test_a_serde_that_is_not_bound_says_so() -> None:
    with pytest.raises(ps.SerializationError, match="works only after it is bound to a topic"):
        ps.Serdes.avro(Item).serialize(Item("a"))


def test_equal_serdes_are_equal_also_behind_a_pickle(config: Config) -> None:
    serde: ps.Serde[Any] = ps.Serdes.avro(Item, config=config)
    assert serde == ps.Serdes.avro(Item, config=config)
    assert pickle.loads(pickle.dumps(serde)) == serde
    made = bound(serde, "t", "key")
    assert made is bound(ps.Serdes.avro(Item, config=config), "t", "key")
    made.serialize(Item("a"))
    assert pickle.loads(pickle.dumps(made)) is made
    assert pickler.loads(pickler.dumps(ps.Serdes.protobuf(Order)))  # a class that cannot be imported


def test_a_key_can_be_given_as_json_text(config: Config) -> None:
    of_text = of(ps.Serdes.avro(Item), config).from_text
    assert of_text('{"name": "a"}') == Item("a")


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        ({}, "sales-value"),
        ({"subject.name.strategy": "TopicNameStrategy"}, "sales-value"),
        ({"subject.name.strategy": "RecordNameStrategy"}, "shop.Item"),
        ({"value.subject.name.strategy": "TopicRecordNameStrategy"}, "sales-shop.Item"),
        ({"key.subject.name.strategy": "RecordNameStrategy"}, "sales-value"),
        ({"subject.name.strategy": "io.confluent.kafka.serializers.subject.RecordNameStrategy"}, "shop.Item"),
        ({"subject.name.strategy": lambda topic, part, record: f"{record}.{topic}.{part}"}, "shop.Item.sales.value"),
    ],
)
def test_the_strategy_names_the_subject(
    settings: Config, subject: str, config: Config, registry: ps.MockSchemaRegistry
) -> None:
    of(ps.Serdes.avro(schema=SCHEMA), config | settings).serialize({"name": "a", "cents": 1})
    assert registry.subjects == [subject]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"schema.registry.url": None}, "schema.registry.url is not set: set it in the configuration"),
        ({"schema.registry.url": "localhost:8081"}, "a URL is expected that begins with http://"),
        ({"schema.registry.url": "http://u:p@h"}, "pass user and password as basic.auth.user.info"),
        ({"schema.registry.url": "u:p@h:8081"}, "pass user and password as basic.auth.user.info"),
        ({"auto.register.schemas": "yes"}, "auto.register.schemas: True or False is expected, not 'yes'"),
        ({"auto.register.schemas": True, "use.latest.version": True}, "use.latest.version needs auto.register.schemas"),
        ({"schema.registry.url": 8081}, "schema.registry.url: a URL is expected, as text, not 8081"),
        ({"subject.name.strategy": "Mine"}, r"(?<!\.)subject.name.strategy: allowed are TopicNameStrategy, "),
        ({"basic.auth.credentials.source": "URL"}, "USER_INFO is expected"),
        ({"schema.registry.ssl.ca": "x"}, r"'schema.registry.ssl.ca' is no setting of a schema registry \(similar: "),
        ({"subject.name.strategy": "RecordNameStrategy"}, "the value of topic 'sales' is no record"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_topic(settings: Config, why: str, config: Config) -> None:
    with pytest.raises(ps.ConfigError, match=rf"serde avro\(str\) cannot be bound to topic 'sales' \(value\): .*{why}"):
        of(ps.Serdes.avro(str), {**config, **settings})


def test_a_serdes_own_settings_count_more_than_the_applications(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    serde = ps.Serdes.avro(Item, config=config)
    bound(serde, "sales", "value", {"schema.registry.url": "mock://another"}).serialize(Item("a"))
    assert registry.subjects == ["sales-value"]


@dataclass
class Older:
    name: str
    gone: int = 0


@dataclass
class Newer:
    name: str
    more: list[str] = field(default_factory=list)
    cents: float = 1.5


def test_a_reader_takes_defaults_for_fields_that_were_not_written(config: Config) -> None:
    data = of(ps.Serdes.avro(Older), config).serialize(Older("a", 7))
    assert of(ps.Serdes.avro(schema=schema_of(Newer).replace("Newer", "Older")), config).deserialize(data) == {
        "name": "a",
        "more": [],
        "cents": 1.5,
    }


def test_a_record_that_the_type_cannot_read_is_refused_with_path_types_ids_subject_and_fix(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    registry.set_compatibility("NONE")
    other = {
        "type": "record", "name": "Item",
        "fields": [{"name": "name", "type": "string"}, {"name": "cents", "type": "string"}],
    }  # fmt: skip
    data = of(ps.Serdes.avro(schema=other), config).serialize({"name": "a", "cents": "1"})
    serde = of(ps.Serdes.avro(Item), config)
    serde.serialize(Item("a"))
    for _ in range(2):
        with pytest.raises(ps.SerializationError) as refused:
            serde.deserialize(data)
    assert str(refused.value) == (
        "avro(Item): a record of schema id 1, subject sales-value, cannot be read by the program's schema (schema id "
        "2): Item.cents: was written as string, and is read as long. Make the program's schema able to read it, as by "
        "a default for each field that is not in every record, or drop such records with a handler"
    )


def test_of_a_schema_that_the_type_reads_in_part_only_the_other_records_are_refused(config: Config) -> None:
    # As in Java: a producer may let a field be null, or add a symbol, before any record has it.
    wider = {
        "type": "record", "name": "Parcel", "fields": [
            {"name": "name", "type": ["null", "string"]},
            {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["small", "large", "huge"]}},
        ]
    }  # fmt: skip
    writer, reader = of(ps.Serdes.avro(schema=wider), config), of(ps.Serdes.avro(Parcel), config)
    assert reader.deserialize(writer.serialize({"name": "a", "size": "small"})) == Parcel("a", Size.SMALL)
    for value in ({"name": None, "size": "small"}, {"name": "a", "size": "huge"}):
        with pytest.raises(
            ps.SerializationError, match=r"id 1 .*Parcel\.name: was written as null.*; Parcel\.size: .*no symbol huge"
        ):
            reader.deserialize(writer.serialize(value))


def test_the_latest_version_is_used_if_so_configured(config: Config, registry: ps.MockSchemaRegistry) -> None:
    settings = {**config, "use.latest.version": True}
    with pytest.raises(ps.SerializationError, match="has no subject sales-value"):
        of(ps.Serdes.avro(Item), settings).serialize(Item("a"))
    text = schema_of(Item).replace('"fresh"', '"another"').replace(',"default":true', "")
    registry.register("sales-value", Schema(text), False)
    with pytest.raises(ps.SerializationError, match=r"Item\.another: was not written, and the reader has no default"):
        of(ps.Serdes.avro(Item), settings).prepare()
    serde = of(ps.Serdes.avro(), settings, "other")
    registry.register("other-value", Schema(schema_of(Item)), False)
    assert serde.deserialize(serde.serialize({"name": "a"}))["weight"] == 1.0


def test_without_automatic_registration_a_schema_must_be_there(config: Config, registry: ps.MockSchemaRegistry) -> None:
    serde = of(ps.Serdes.avro(Item), {**config, "auto.register.schemas": False})
    with pytest.raises(ps.SerializationError, match=r"does not have this schema\. Register the schema, or set auto"):
        serde.prepare()
    registry.register("sales-value", Schema(schema_of(Item)), False)
    serde.prepare()
    assert serde.deserialize(serde.serialize(Item("a"))) == Item("a")
    assert registry.calls.count("register sales-value") == 1
