"""All serdes that come with penstock: Kafka's own, and those of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from penstock.common.serdes import Serde
from penstock.common.serdes import Serdes as PlainSerdes
from penstock.registry.generic_record import GenericRecord
from penstock.registry.on_use import module
from penstock.registry.serde import RegistrySerde

T = TypeVar("T")
Config = Mapping[str, Any]


class Serdes(PlainSerdes):
    """The serdes that come with penstock. Those of Kafka's ``Serdes`` have its bytes; ``avro``, ``protobuf`` and
    ``json_schema`` have those of Confluent's serializers, and need a schema registry (docs/SCHEMA_REGISTRY.md)."""

    @overload
    @staticmethod
    def avro(*, config: Config | None = None) -> Serde[GenericRecord]: ...
    @overload
    @staticmethod
    def avro(*, schema: str | Mapping[str, Any], config: Config | None = None) -> Serde[dict[str, Any]]: ...
    @overload
    @staticmethod
    def avro(
        kind: type[T], *, schema: str | Mapping[str, Any] | None = None, config: Config | None = None
    ) -> Serde[T]: ...
    @staticmethod
    def avro(
        kind: Any = None, *, schema: str | Mapping[str, Any] | None = None, config: Config | None = None
    ) -> Serde[Any]:
        """Avro records. Mirrors Confluent's ``SpecificAvroSerde`` and ``GenericAvroSerde``.

        With ``kind``: objects of a dataclass, TypedDict or msgspec.Struct. Their schema is made of the type, unless
        ``schema`` gives another. With ``schema`` alone: dicts of that schema. With neither: dicts that remember the
        schema that they were written with (:class:`GenericRecord`).

        ``config``: settings of the registry for this serde, by the names of docs/SCHEMA_REGISTRY.md; by default those
        of the application. Raises TopologyError for a type or text that makes no schema.
        """
        return RegistrySerde.of(module("avro").avro_format(kind, schema), config)

    @staticmethod
    def protobuf(kind: type[T], *, config: Config | None = None) -> Serde[T]:
        """Messages of a class that protoc has generated. Mirrors Confluent's ``KafkaProtobufSerde``.

        Their file is registered, with the files that it imports as references. ``config`` as in :meth:`avro`. Raises
        TopologyError for another class.
        """
        return RegistrySerde.of(module("protobuf").protobuf_format(kind), config)

    @overload
    @staticmethod
    def json_schema(*, schema: str | Mapping[str, Any], config: Config | None = None) -> Serde[Any]: ...
    @overload
    @staticmethod
    def json_schema(
        kind: type[T], *, schema: str | Mapping[str, Any] | None = None, config: Config | None = None
    ) -> Serde[T]: ...
    @staticmethod
    def json_schema(
        kind: Any = None, *, schema: str | Mapping[str, Any] | None = None, config: Config | None = None
    ) -> Serde[Any]:
        """JSON whose schema is registered. Mirrors Confluent's ``KafkaJsonSchemaSerde``.

        With ``kind``: objects of the types that :meth:`json` takes. Their schema is made of the type, unless ``schema``
        gives another. With ``schema`` alone: plain JSON values, each checked against it. ``config`` as in :meth:`avro`.
        Raises TopologyError for a type or text that makes no schema.
        """
        return RegistrySerde.of(module("json_schema").json_format(kind, schema), config)
