"""The rows of a store that an audit compares, whether the stores are live or of checkpoints."""

from __future__ import annotations

from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommittedStore
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row, digests_of, rows_of_range


def digests_of_store(builder: AnyStoreBuilder, store: CommittedStore, sample: KeySample | None) -> list[RangeDigest]:
    """Returns the digests of all rows of ``store`` that an audit compares, or of those in ``sample``."""
    rows = builder.compared_rows(store)
    return digests_of(rows if sample is None else sample.of_rows(rows))


def rows_of_store(
    builder: AnyStoreBuilder, store: CommittedStore, begin: bytes, end: bytes | None, sample: KeySample | None
) -> list[Row]:
    """Returns the rows of one range of ``store``, by key, as :func:`digests_of_store` has them."""
    rows = rows_of_range(builder.compared_rows(store, begin, end), end)
    return list(rows if sample is None else sample.of_rows(rows))
