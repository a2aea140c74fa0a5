"""Sealed objects: a format, a body and the body's hash in one JSON object, so that no damaged body is ever used."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointFormatError
from penstock.objects.digests import digest_of

FORMAT: Final = 1
"""The newest format that this version of penstock reads, and the one that it writes."""

B = TypeVar("B")


class _Format(msgspec.Struct):
    format: int


class _Sealed(msgspec.Struct):
    format: int
    digest: str
    body: msgspec.Raw


def seal(body: msgspec.Struct) -> bytes:
    """Returns the content of the object that holds ``body``."""
    encoded = msgspec.json.encode(body)
    return msgspec.json.encode(_Sealed(FORMAT, digest_of(encoded), msgspec.Raw(encoded)))


def unseal(content: bytes, kind: type[B], where: str) -> B:
    """Returns the body of a sealed object. ``where`` names the object in errors.

    Raises CheckpointFormatError if a newer version of penstock has written it, CheckpointDamagedError if the content is
    not what was written.
    """
    try:
        found = msgspec.json.decode(content, type=_Format).format
        if found > FORMAT:
            raise CheckpointFormatError(
                f"{where} has format {found}, and this version of penstock reads formats up to {FORMAT}: run the "
                "version that has written it, or a newer one"
            )
        sealed = msgspec.json.decode(content, type=_Sealed)
        if digest_of(bytes(sealed.body)) != sealed.digest:
            raise CheckpointDamagedError(f"{where} is damaged: its content does not fit its hash")
        return msgspec.json.decode(sealed.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointDamagedError(f"{where} is damaged: it cannot be read: {error}") from error
