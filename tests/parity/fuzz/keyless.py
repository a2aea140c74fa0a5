"""A fake broker whose records without a key are where the drivers put them."""

from __future__ import annotations

from typing_extensions import override

from penstock.common.murmur2 import partition_for
from penstock.testing.fake_broker import FakeBroker


class KeylessToFirst(FakeBroker):
    """Puts records without a key where the driver does, into the first partition."""

    @override
    def _choose(self, key: bytes | None, partitions: int) -> int:
        return 0 if key is None else partition_for(key, partitions)
