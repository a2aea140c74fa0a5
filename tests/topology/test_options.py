"""The option objects: frozen, checked when they are made, changed by copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder

WRONG: Any = "wrong"


def test_options_are_values_that_cannot_change() -> None:
    consumed = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long())
    assert consumed == ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long())
    with pytest.raises(FrozenInstanceError):
        consumed.name = "other"  # type: ignore[misc]  # the error is the point


def test_with_methods_return_a_changed_copy() -> None:
    plain = ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long())
    named = plain.with_name("results").with_value_serde(ps.Serdes.integer())
    assert (named.name, named.key_serde, named.value_serde) == ("results", ps.Serdes.string(), ps.Serdes.integer())
    assert (plain.name, plain.value_serde) == (None, ps.Serdes.long())


def test_a_table_is_kept_on_disk_with_cache_and_changelog_by_default() -> None:
    counts: ps.Materialized[str, int] = ps.Materialized.as_("counts")
    store = counts.builder(TimestampedKeyValueStoreBuilder, "counts", None, ps.Serdes.long())
    assert (store.persistent, store.caching, store.logging) == (True, True, True)
    assert store.value_serde is ps.Serdes.long()


def test_a_table_is_kept_in_the_kind_of_store_that_its_operator_asks_for() -> None:
    counts: ps.Materialized[str, int] = ps.Materialized.as_("counts")
    store = counts.with_caching_disabled().builder(TimestampedKeyValueStoreBuilder, "counts", None, None)
    assert (type(store), store.name, store.caching) == (TimestampedKeyValueStoreBuilder, "counts", False)


def test_a_supplier_names_the_store_and_its_type() -> None:
    materialized: ps.Materialized[str, int] = ps.Materialized.as_(ps.Stores.in_memory_key_value_store("counts"))
    assert (materialized.name, materialized.store_type) == ("counts", ps.StoreType.IN_MEMORY)


def test_logging_is_switched_off_with_its_topic_configuration_and_on_with_a_new_one() -> None:
    counts: ps.Materialized[str, int] = ps.Materialized.as_("counts")
    configured = counts.with_logging_enabled({"min.compaction.lag.ms": "1000"})
    assert configured.topic_config == {"min.compaction.lag.ms": "1000"}
    off = configured.with_logging_disabled()
    assert (off.logging, off.topic_config) == (False, {})


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a/b", "x" * 250])
@pytest.mark.parametrize(
    "named",
    [
        ps.Named.as_,
        ps.Consumed.as_,
        ps.Produced.as_,
        ps.Grouped.as_,
        ps.Joined.as_,
        ps.Repartitioned.as_,
        ps.Materialized.as_,
        ps.Branched.as_,
    ],
)
def test_a_name_that_cannot_be_part_of_a_topic_is_refused(named: Callable[[str], Any], name: str) -> None:
    with pytest.raises(ps.TopologyError, match="illegal"):
        named(name)


def test_the_longest_name_is_249_characters() -> None:
    assert ps.Named.as_("x" * 249).name == "x" * 249


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.Consumed.with_(WRONG), "Consumed: key_serde must be a Serde"),
        (lambda: ps.Materialized.with_(None, WRONG), "Materialized: value_serde must be a Serde"),
        (
            lambda: ps.Consumed.with_(offset_reset=WRONG),
            r"'earliest', 'latest', 'none' or AutoOffsetReset.by_duration\(…\), not 'wrong'",
        ),
        (lambda: ps.Repartitioned.as_("r").with_number_of_partitions(0), "at least 1, not 0"),
        (lambda: ps.Produced.with_(partitioner=WRONG), "Produced: partitioner must be callable"),
        (lambda: ps.Branched.with_function(WRONG), "Branched: function must be callable"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_written(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        make()


@pytest.mark.parametrize(
    ("supplier", "kind"),
    [
        (ps.Stores.persistent_window_store("s", timedelta(hours=1), timedelta(minutes=1)), "window"),
        (ps.Stores.in_memory_session_store("s", timedelta(hours=1)), "session"),
    ],
)
def test_a_supplier_of_another_kind_of_store_is_refused_in_words(supplier: Any, kind: str) -> None:
    words = ps.StreamsBuilder().stream("words").group_by_key()
    with pytest.raises(ps.TopologyError, match=f"a KTable needs a key-value store, not a {kind} store \\('s'\\)"):
        words.count(ps.Materialized.as_(supplier))
