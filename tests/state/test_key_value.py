"""The typed store that a processor sees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.common.serdes import Serdes
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.key_value.typed_store import TypedKeyValueStore
from penstock.state.rows.typed_keys import TypedKeys
from tests.state.contexts import a_buffer

KEYS = st.lists(st.sampled_from([0, 1, 0x61, 0xFE, 0xFF]), max_size=4).map(bytes)


@given(keys=st.sets(KEYS, max_size=20), committed=st.sets(KEYS, max_size=20), prefix=KEYS)
def test_a_prefix_scan_gives_the_keys_that_begin_with_it_and_no_others(
    keys: set[bytes], committed: set[bytes], prefix: bytes
) -> None:
    builder = KeyValueStoreBuilder("store", Serdes.bytes(), Serdes.string())
    stores = InMemoryTaskStores([builder])
    batch = stores.new_batch()
    for key in committed:
        batch.put("store", key, b"v")
    stores.write(batch, {})
    store = TypedKeyValueStore(
        a_buffer(stores.store("store"), Serdes.string()), TypedKeys("store", Serdes.bytes()), lambda: 0
    )
    for key in keys:
        store.put(key, "v")
    expected = sorted(key for key in keys | committed if key.startswith(prefix))
    assert [key for key, _ in store.prefix_scan(prefix)] == expected
