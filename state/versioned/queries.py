"""What may be asked of versioned stores, as a value; the name is KIP-960's."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.state.queries import Query


@dataclass(frozen=True)
class VersionedKeyQuery(Query):
    """The latest version of ``key``, or the one that was valid at the timestamp ``as_of`` (ms): a
    :class:`~penstock.state.versioned.views.VersionedRecord`."""

    key: bytes
    as_of: int | None = None
