"""Adds joins of two streams to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.outer_join_store import OuterJoinStoreBuilder
from penstock.state.stores import WindowBytesStoreSupplier
from penstock.state.windowed.join_window_store import JoinWindowStoreBuilder
from penstock.topology.dsl.stream_base import StreamHead
from penstock.topology.logical.graph import Operation
from penstock.topology.logical.stream_joins import JoinSide, StreamStreamJoinNode
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.physical.operators.stream_join import JoinWindow

_THIS, _OUTER_THIS = "KSTREAM-JOINTHIS-", "KSTREAM-OUTERTHIS-"
_OTHER, _OUTER_OTHER = "KSTREAM-JOINOTHER-", "KSTREAM-OUTEROTHER-"
_SHARED = "KSTREAM-OUTERSHARED-"


def join_streams(
    here: StreamHead,
    there: StreamHead,
    joiner: Callable[..., Any],
    with_key: bool,
    windows: JoinWindows,
    how: StreamJoined[Any, Any, Any],
    call: str,
) -> StreamHead:
    """Adds ``join``, ``left_join`` or ``outer_join``, as ``call`` says, of two streams partitioned by their keys."""
    graph, names = here.graph, here.graph.names
    left_outer, right_outer = call != "join", call == "outer_join"
    sources = graph.copartition(here.sources, there.sources)
    this_suffix = "-outer-this-join" if right_outer else "-this-join"
    other_suffix = "-outer-other-join" if left_outer else "-other-join"
    this_windowed = names.processor_or(how.name, "KSTREAM-WINDOWED-", "-this-windowed")
    other_windowed = names.processor_or(how.name, "KSTREAM-WINDOWED-", "-other-windowed")
    this_generated = names.processor(_OUTER_THIS if right_outer else _THIS)
    other_generated = names.processor(_OUTER_OTHER if left_outer else _OTHER)
    merged = names.processor_or(how.name, "KSTREAM-MERGE-", "-merge")
    here.note_user_call(f"{call} {merged}", "StreamJoined")
    there.note_user_call(f"{call} {merged}", "StreamJoined")

    key_serde = how.key_serde or here.key_serde
    value_serdes = how.value_serde or here.value_serde, how.other_value_serde or there.value_serde
    base = how.store_name
    this_store = _window_store(
        f"{base}{this_suffix}" if base else this_generated,
        how.this_store_supplier, windows, key_serde, value_serdes[0], how,
    )  # fmt: skip
    other_store = _window_store(
        f"{base}{other_suffix}" if base else other_generated,
        how.other_store_supplier, windows, how.key_serde or there.key_serde, value_serdes[1], how,
    )  # fmt: skip
    shared_generated = names.derived(_SHARED + this_generated.removeprefix(_OUTER_THIS if right_outer else _THIS))
    outer_store = _outer_store(shared_generated, key_serde, value_serdes, right_outer, how) if left_outer else None
    sides = (
        JoinSide(this_windowed, _suffixed(how.name, this_suffix, this_generated), this_store.name, left_outer),
        JoinSide(other_windowed, _suffixed(how.name, other_suffix, other_generated), other_store.name, right_outer),
    )
    for head, side, store in ((here, sides[0], this_store), (there, sides[1], other_store)):
        graph.add(_keeping(side.windowed, store), head.node)
    node = StreamStreamJoinNode(merged, call, sides, joiner, with_key, windows, outer_store)
    graph.add(node, here.node, there.node)
    return here.moved(node, key_serde=key_serde, value_serde=None, sources=sources, repartition_required=False)


def _keeping(name: str, store: AnyStoreBuilder) -> Operation:
    return Operation(name, lambda: JoinWindow(store.name), lambda: (store,))


def _suffixed(name: str | None, suffix: str, generated: str) -> str:
    return generated if name is None else name + suffix


def _window_store(
    name: str,
    supplier: WindowBytesStoreSupplier | None,
    windows: JoinWindows,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
    how: StreamJoined[Any, Any, Any],
) -> JoinWindowStoreBuilder[Any, Any]:
    if supplier is not None:
        _check_supplier(supplier, windows)
    return JoinWindowStoreBuilder(
        f"{name}-store" if supplier is None else supplier.name,
        key_serde,
        value_serde,
        persistent=supplier is None or supplier.persistent,
        logging=how.logging,
        topic_config=how.topic_config,
        retention_ms=windows.retention_ms,
        window_size_ms=windows.size_ms,
        retain_duplicates=True,
    )


def _check_supplier(supplier: WindowBytesStoreSupplier, windows: JoinWindows) -> None:
    wanted = windows.retention_ms, windows.size_ms, True
    if (supplier.retention_ms, supplier.window_size_ms, supplier.retain_duplicates) != wanted:
        raise TopologyError(
            f"StreamJoined: store {supplier.name!r} does not fit its join: it needs retention_period="
            f"{windows.retention_ms} (before, after and grace period), window_size={windows.size_ms} (before and "
            f"after) and retain_duplicates=True, not {supplier.retention_ms}, {supplier.window_size_ms} and "
            f"{supplier.retain_duplicates}"
        )


def _outer_store(
    generated: str,
    key_serde: Serde[Any] | None,
    value_serdes: tuple[Serde[Any] | None, Serde[Any] | None],
    right_outer: bool,
    how: StreamJoined[Any, Any, Any],
) -> OuterJoinStoreBuilder[Any]:
    """Returns the store of records of both sides that wait for a match: on disk or in memory like the first side's."""
    supplier = how.this_store_supplier
    base = how.store_name if supplier is None else supplier.name
    name = generated if base is None else base + ("-outer-shared-join" if right_outer else "-left-shared-join")
    return OuterJoinStoreBuilder(
        f"{name}-store",
        key_serde,
        persistent=supplier is None or supplier.persistent,
        logging=how.logging,
        topic_config=how.topic_config,
        left_serde=value_serdes[0],
        right_serde=value_serdes[1],
    )
