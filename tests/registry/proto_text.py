"""The text of a simple ``.proto`` file: Apicurio's server compares no others."""

from __future__ import annotations

import base64

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from tests.registry.messages import Field


def text_of(descriptor: str) -> str:
    file = FileDescriptorProto.FromString(base64.b64decode(descriptor))
    return f'syntax = "proto3";\npackage {file.package};\n' + "".join(map(_message, file.message_type))


def _message(message: DescriptorProto) -> str:
    oneofs = {
        number: [_field(each) for each in message.field if each.HasField("oneof_index") and each.oneof_index == number]
        for number in range(len(message.oneof_decl))
    }
    lines = [_field(each) for each in message.field if not each.HasField("oneof_index")]
    lines += [f"oneof {message.oneof_decl[number].name} {{ {' '.join(each)} }}" for number, each in oneofs.items()]
    return f"message {message.name} {{ {' '.join(lines)} }}\n"


def _field(each: Field) -> str:
    kind = each.type_name.lstrip(".") or Field.Type.Name(each.type).removeprefix("TYPE_").lower()
    repeated = "repeated " if each.label == Field.LABEL_REPEATED else ""
    return f"{repeated}{kind} {each.name} = {each.number};"
