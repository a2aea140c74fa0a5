"""Evolutions of schemas that a registry accepts or refuses: the same table for the mock and for Apicurio's server."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, OneofDescriptorProto

from penstock.registry.contracts import Schema
from penstock.registry.mock import Compatibility
from tests.registry.messages import Field, field, file


class Evolution(NamedTuple):
    """``versions``: each but the last is accepted without a check. ``accepted``: the answer to the last. ``differs``
    says why Apicurio's server answers otherwise; empty if it does not."""

    name: str
    level: Compatibility
    versions: tuple[Schema, ...]
    accepted: bool
    differs: str = ""


def record(*fields: Any, name: str = "R", **more: Any) -> Schema:
    return Schema(json.dumps({"type": "record", "name": name, "fields": list(fields), **more}))


def avro(name: str, kind: Any, *default: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **({"default": default[0]} if default else {}), **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A, B = avro("a", "string"), avro("b", "long")
B0 = avro("b", "long", 0)
ONE = record(A)


def turned(kind: Any, to: Any) -> tuple[Schema, Schema]:
    return record(avro("a", kind)), record(avro("a", to))


AVRO = [
    Evolution("field with a default is added", "BACKWARD", (ONE, record(A, B0)), True),
    Evolution("field without a default is added", "BACKWARD", (ONE, record(A, B)), False),
    Evolution("field is removed", "BACKWARD", (record(A, B), ONE), True),
    Evolution("field is renamed", "BACKWARD", (ONE, record(avro("z", "string"))), False),
    Evolution("field is renamed with an alias", "BACKWARD", (ONE, record(avro("z", "string", aliases=["a"]))), True),
    Evolution("int becomes long", "BACKWARD", turned("int", "long"), True),
    Evolution("int becomes double", "BACKWARD", turned("int", "double"), True),
    Evolution("long becomes int", "BACKWARD", turned("long", "int"), False),
    Evolution("long becomes string", "BACKWARD", turned("long", "string"), False),
    Evolution("float becomes double", "BACKWARD", turned("float", "double"), True),
    Evolution("string becomes bytes", "BACKWARD", turned("string", "bytes"), True),
    Evolution("bytes become string", "BACKWARD", turned("bytes", "string"), True),
    Evolution("field becomes optional", "BACKWARD", turned("string", ["null", "string"]), True),
    Evolution("field becomes required", "BACKWARD", turned(["null", "string"], "string"), False),
    Evolution("union loses a type", "BACKWARD", turned(["null", "string", "int"], ["null", "string"]), False),
    Evolution("enum gets a symbol", "BACKWARD", turned(enum("X"), enum("X", "Y")), True),
    Evolution("enum loses a symbol", "BACKWARD", turned(enum("X", "Y"), enum("X")), False),
    Evolution("enum with a default loses a symbol", "BACKWARD",
              turned(enum("X", "Y"), enum("X", default="X")), True),
    Evolution("items of an array widen", "BACKWARD",
              turned({"type": "array", "items": "int"}, {"type": "array", "items": "long"}), True),
    Evolution("values of a map narrow", "BACKWARD",
              turned({"type": "map", "values": "long"}, {"type": "map", "values": "int"}), False),
    Evolution("fixed gets another size", "BACKWARD",
              turned({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}), False),
    Evolution("record within gets a field without a default", "BACKWARD",
              turned({"type": "record", "name": "I", "fields": [A]}, {"type": "record", "name": "I", "fields": [A, B]}),
              False),
    Evolution("record gets another name", "BACKWARD", (ONE, record(A, name="S")), False),
    Evolution("field with a default is removed", "FORWARD", (record(A, B0), ONE), True),
    Evolution("field without a default is removed", "FORWARD", (record(A, B), ONE), False),
    Evolution("field without a default is added", "FORWARD", (ONE, record(A, B)), True),
    Evolution("long becomes int", "FORWARD", turned("long", "int"), True),
    Evolution("int becomes long", "FORWARD", turned("int", "long"), False),
    Evolution("field with a default is added", "FULL", (ONE, record(A, B0)), True),
    Evolution("field without a default is added", "FULL", (ONE, record(A, B)), False),
    Evolution("int becomes long", "FULL", turned("int", "long"), False),
    Evolution("anything", "NONE", turned("int", {"type": "array", "items": "long"}), True),
    Evolution("fits the last version, and not the first", "BACKWARD",
              (record(avro("x", "string")), ONE, record(A, B0)), True),
    Evolution("fits the last version, and not the first", "BACKWARD_TRANSITIVE",
              (record(avro("x", "string")), ONE, record(A, B0)), False),
    Evolution("fits all versions", "BACKWARD_TRANSITIVE",
              (record(A, B0), ONE, record(A, B0, avro("c", "int", 1))), True),
    Evolution("fits the last version, and not the first", "FORWARD_TRANSITIVE",
              (record(A, B), ONE, record(A, avro("c", "int"))), False),
    Evolution("fits the last version, and not the first", "FULL_TRANSITIVE",
              (record(A, B), record(A, B0), record(A)), False),
]  # fmt: skip


def json_schema(**schema: Any) -> Schema:
    return Schema(json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}), "JSON")


def closed(*required: str, **properties: Any) -> Schema:
    return json_schema(type="object", properties=properties, required=list(required), additionalProperties=False)


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def of(before: Any, after: Any) -> tuple[Schema, Schema]:
    return closed(a=before), closed(a=after)


JSON = [
    Evolution("property is added to a closed object", "BACKWARD", (closed(a=STRING), closed(a=STRING, b=STRING)), True),
    Evolution("required property is added", "BACKWARD", (closed(a=STRING), closed("b", a=STRING, b=STRING)), False),
    Evolution("property is removed from a closed object", "BACKWARD",
              (closed(a=STRING, b=STRING), closed(a=STRING)), False),
    Evolution("property is no longer required", "BACKWARD", (closed("a", a=STRING), closed(a=STRING)), True),
    Evolution("property becomes required", "BACKWARD", (closed(a=STRING), closed("a", a=STRING)), False),
    Evolution("string becomes integer", "BACKWARD", of(STRING, INTEGER), False),
    Evolution("integer becomes number", "BACKWARD", of(INTEGER, NUMBER), True),
    Evolution("number becomes integer", "BACKWARD", of(NUMBER, INTEGER), False),
    Evolution("enum gets a value", "BACKWARD",
              of({"type": "string", "enum": ["x"]}, {"type": "string", "enum": ["x", "y"]}), True),
    Evolution("enum loses a value", "BACKWARD",
              of({"type": "string", "enum": ["x", "y"]}, {"type": "string", "enum": ["x"]}), False),
    Evolution("maximum length falls", "BACKWARD",
              of({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5}), False),
    Evolution("maximum length rises", "BACKWARD",
              of({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9}), True),
    Evolution("minimum rises", "BACKWARD",
              of({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 2}), False),
    Evolution("object is opened", "BACKWARD",
              (closed(a=STRING), json_schema(type="object", properties={"a": STRING})), True),
    Evolution("object is closed", "BACKWARD",
              (json_schema(type="object", properties={"a": STRING}), closed(a=STRING)), False),
    Evolution("property is removed", "FORWARD", (closed(a=STRING, b=STRING), closed(a=STRING)), True),
    Evolution("property is added to a closed object", "FULL", (closed(a=STRING), closed(a=STRING, b=STRING)), False),
]  # fmt: skip


def message(*fields: Any, name: str = "M", **more: Any) -> DescriptorProto:
    return DescriptorProto(name=name, field=list(fields), **more)


def proto(*messages: DescriptorProto) -> Schema:
    text = base64.standard_b64encode(file("m.proto", *messages).SerializeToString()).decode()
    return Schema(text, "PROTOBUF")


F1, F2 = field("a", 1, Field.TYPE_STRING), field("b", 2, Field.TYPE_INT32)
X_AND_Y = (message(F1, name="X"), message(F1, name="Y"))
_RESERVE = "Apicurio wants the number and name of a removed field reserved"
PROTOBUF = [
    Evolution("field is added", "BACKWARD", (proto(message(F1)), proto(message(F1, F2))), True),
    Evolution("field is removed", "BACKWARD", (proto(message(F1, F2)), proto(message(F1))), True, _RESERVE),
    Evolution("string becomes int32", "BACKWARD",
              (proto(message(F1)), proto(message(field("a", 1, Field.TYPE_INT32)))), False),
    Evolution("int32 becomes int64", "BACKWARD",
              (proto(message(F2)), proto(message(field("b", 2, Field.TYPE_INT64)))), True,
              "Apicurio calls every change of a type incompatible"),
    Evolution("int32 becomes double", "BACKWARD",
              (proto(message(F2)), proto(message(field("b", 2, Field.TYPE_DOUBLE)))), False),
    Evolution("message is added", "BACKWARD",
              (proto(message(F1)), proto(message(F1), message(F2, name="N"))), True),
    Evolution("single becomes repeated", "BACKWARD",
              (proto(message(F2)), proto(message(field("b", 2, Field.TYPE_INT32, Field.LABEL_REPEATED)))), False),
    Evolution("two fields become a oneof", "BACKWARD",
              (proto(message(F1, F2)),
               proto(message(
                   Field(name="a", number=1, type=Field.TYPE_STRING, oneof_index=0),
                   Field(name="b", number=2, type=Field.TYPE_INT32, oneof_index=0),
                   oneof_decl=[OneofDescriptorProto(name="o")],
               ))), False, "Apicurio does not compare oneofs"),
    Evolution("field of another message type", "BACKWARD",
              (proto(message(field("c", 3, Field.TYPE_MESSAGE, of=".shop.X")), *X_AND_Y),
               proto(message(field("c", 3, Field.TYPE_MESSAGE, of=".shop.Y")), *X_AND_Y)), False),
]  # fmt: skip

EVOLUTIONS = [
    *(each._replace(name=f"avro: {each.name}, {each.level}") for each in AVRO),
    *(each._replace(name=f"json: {each.name}, {each.level}") for each in JSON),
    *(each._replace(name=f"protobuf: {each.name}, {each.level}") for each in PROTOBUF),
]
