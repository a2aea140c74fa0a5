"""Keys come in order, for any keys added in any portions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.common.serdes import Serdes
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.write_buffer.ordered_keys import OrderedKeys
from tests.state.contexts import a_buffer

ENDS = st.none() | st.binary(max_size=3)


@given(
    portions=st.lists(st.sets(st.binary(max_size=3), max_size=12), max_size=8),
    discarded=st.sets(st.binary(max_size=3), max_size=12),
    taken_out=st.tuples(st.binary(max_size=3), st.binary(max_size=3)),
    from_key=ENDS,
    to_key=ENDS,
    reverse=st.booleans(),
)
def test_keys_come_in_order_between_both_ends(
    portions: list[set[bytes]],
    discarded: set[bytes],
    taken_out: tuple[bytes, bytes],
    from_key: bytes | None,
    to_key: bytes | None,
    reverse: bool,
) -> None:
    ordered, model = OrderedKeys(), set[bytes]()

    def assert_same() -> None:
        inside = [k for k in model if (from_key is None or k >= from_key) and (to_key is None or k <= to_key)]
        assert list(ordered.between(from_key, to_key, reverse)) == sorted(inside, reverse=reverse)

    for portion in portions:
        ordered.add(portion - model)
        model |= portion
        assert_same()
    assert ordered.discard(discarded) == len(model & discarded)
    model -= discarded
    assert_same()
    gone = {key for key in model if taken_out[0] <= key < taken_out[1]}
    assert ordered.take_out(*taken_out) == sorted(gone)
    model -= gone
    assert_same()


class Counted(bytes):
    """A key that counts how often any of its kind is compared."""

    comparisons = 0

    def __lt__(self, other: bytes) -> bool:
        Counted.comparisons += 1
        return bytes.__lt__(self, other)


def test_a_page_of_many_uncommitted_keys_looks_at_few_of_them() -> None:
    builder = KeyValueStoreBuilder("store", Serdes.bytes(), Serdes.string())
    buffer = a_buffer(InMemoryTaskStores([builder]).store("store"), Serdes.string(), caching=True)
    keys = [Counted(b"%06d" % (number * 7919 % 100_000)) for number in range(100_000)]
    for key in keys:
        buffer.put(key, "v", 0, None)
    next(buffer.scan(None, None, limit=1))
    Counted.comparisons = 0
    buffer.put(Counted(b"050000x"), "v", 0, None)
    page = [key for key, _ in buffer.scan(Counted(b"050000"), None, limit=10)][:10]
    assert page == [b"050000", b"050000x", *(b"%06d" % number for number in range(50_001, 50_009))]
    assert Counted.comparisons < 200


def test_a_scan_of_a_group_sorts_no_keys_of_others() -> None:
    builder = KeyValueStoreBuilder("store", Serdes.bytes(), Serdes.string())
    buffer = a_buffer(InMemoryTaskStores([builder]).store("store"), Serdes.string())
    keys = [Counted(b"%06d" % (number * 7919 % 100_000)) for number in range(10_000)]
    Counted.comparisons = 0
    for number, key in enumerate(keys):
        buffer.put(key, "v", 0, None)
        if number % 100 == 99:
            buffer.put(keys[number // 2], None, 0, None)
            assert key in [found for found, _ in buffer.scan_group(key[:4], lambda row: row[:4])]
    assert 0 < Counted.comparisons < 10_000


def test_nothing_is_ordered_where_nobody_scans() -> None:
    builder = KeyValueStoreBuilder("store", Serdes.bytes(), Serdes.string())
    stores = InMemoryTaskStores([builder])
    buffer = a_buffer(stores.store("store"), Serdes.string())
    Counted.comparisons = 0
    for number in range(100):
        buffer.put(Counted(b"%d" % number), "v", 0, None)
    batch = stores.new_batch()
    list(buffer.flush(batch))
    stores.write(batch, {})
    buffer.batch_written()
    assert Counted.comparisons == 0
