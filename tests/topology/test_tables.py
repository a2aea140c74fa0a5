"""The implementation of a KTable: the store in which its content is looked up, and whether it sends old values."""

from __future__ import annotations

import pytest
from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.logical.tables import DerivedTable, StoredTable
from penstock.topology.physical.operators.table import MapValuesGetter, StoreGetter, TableMapValues, TableSource

OPERATOR = TableMapValues(str)


class Delayed(DerivedTable):
    """A table whose store holds what waits, not what the table contains."""

    @property
    @override
    def materialized(self) -> bool:
        return False


def source(*, materialized: bool) -> StoredTable:
    return StoredTable(TableSource(), TimestampedKeyValueStoreBuilder("source"), materialized=materialized)


def derived(kind: type[DerivedTable], parent: StoredTable, store: str | None) -> DerivedTable:
    builder: AnyStoreBuilder | None = None if store is None else TimestampedKeyValueStoreBuilder(store)
    return kind(OPERATOR, builder, lambda getter: MapValuesGetter(getter, str, False), parent)


def test_a_table_is_looked_up_in_its_own_store_where_that_holds_its_content() -> None:
    table = derived(DerivedTable, source(materialized=True), "kept")
    assert table.getter() == StoreGetter("kept")


@pytest.mark.parametrize(("kind", "store"), [(DerivedTable, None), (Delayed, "waiting")])
def test_otherwise_it_is_looked_up_in_its_parent_which_is_kept_from_then_on(
    kind: type[DerivedTable], store: str | None
) -> None:
    parent = source(materialized=False)
    table = derived(kind, parent, store)
    assert parent.stores() == ()
    assert table.getter() == MapValuesGetter(StoreGetter("source"), str, False)
    assert [each.name for each in parent.stores()] == ["source"]


def test_a_store_that_holds_something_else_belongs_to_the_table_all_the_same() -> None:
    table = derived(Delayed, source(materialized=False), "waiting")
    assert [each.name for each in table.stores()] == ["waiting"]
    assert table.operator().store == "waiting"


@pytest.mark.parametrize(("kind", "store", "expected"), [(DerivedTable, "kept", False), (Delayed, "waiting", True)])
def test_old_values_come_from_the_tables_own_content_or_else_from_its_parents(
    kind: type[DerivedTable], store: str, expected: bool
) -> None:
    parent = source(materialized=True)
    assert derived(kind, parent, store).enable_sending_old_values(force=False)
    assert parent.sends_old_values is expected
