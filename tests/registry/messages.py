"""Classes of Protobuf as protoc would generate them, made without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

Field = FieldDescriptorProto


def field(name: str, number: int, kind: int, label: int = Field.LABEL_OPTIONAL, of: str = "") -> Field:
    return Field(name=name, number=number, type=kind, label=label, type_name=of or None)  # type: ignore[arg-type]


def file(name: str, *messages: DescriptorProto, imports: tuple[str, ...] = ()) -> FileDescriptorProto:
    return FileDescriptorProto(
        name=name, package="shop", syntax="proto3", message_type=list(messages), dependency=list(imports)
    )


ADDRESS = file("shop/address.proto", DescriptorProto(name="Address", field=[field("city", 1, Field.TYPE_STRING)]))
ORDER = file(
    "shop/order.proto",
    DescriptorProto(
        name="Order",
        field=[
            field("id", 1, Field.TYPE_INT64),
            field("item", 2, Field.TYPE_STRING),
            field("cents", 3, Field.TYPE_INT64),
            field("price", 4, Field.TYPE_DOUBLE),
            field("to", 5, Field.TYPE_MESSAGE, of=".shop.Address"),
        ],
    ),
    DescriptorProto(
        name="Basket",
        field=[field("items", 1, Field.TYPE_STRING, Field.LABEL_REPEATED)],
        nested_type=[DescriptorProto(name="Line", field=[field("cents", 1, Field.TYPE_INT64)])],
    ),
    imports=("shop/address.proto",),
)
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(ADDRESS)
_POOL.Add(ORDER)


def _made(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


Order, Basket, Line, Address = map(_made, ("shop.Order", "shop.Basket", "shop.Basket.Line", "shop.Address"))
