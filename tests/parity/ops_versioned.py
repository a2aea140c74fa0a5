"""The step of parity cases that makes a versioned table."""

from __future__ import annotations

from typing import Any

from penstock.common.serdes import Serde
from penstock.state.stores import Stores
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed


class VersionedSteps:
    """The step ``versioned_table``."""

    builder: StreamsBuilder

    def _versioned_table(self, step: dict[str, Any], source: Any) -> Any:
        from tests.parity.build import SERDES

        key, value = step.get("key", "string"), step.get("value", "string")
        read = Consumed.with_(SERDES[key], SERDES[value])
        read = read.with_name(step["named"]) if "named" in step else read
        table = self.builder.table(step["topic"], read, versioned(step, SERDES[key], SERDES[value]))
        return type(source)(table, key, value)


def versioned(step: dict[str, Any], key: Serde[Any], value: Serde[Any]) -> Materialized[Any, Any]:
    """Returns the ``Materialized`` of a step with ``history_ms``."""
    supplier = Stores.persistent_versioned_key_value_store(step["store"], step["history_ms"])
    kept: Materialized[Any, Any] = Materialized.as_(supplier)
    return kept.with_key_serde(key).with_value_serde(value)
