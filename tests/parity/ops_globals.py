"""The steps of global tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.topology.dsl.global_ktable import GlobalKTable
from tests.parity import functions

if TYPE_CHECKING:
    from penstock.topology.dsl.streams_builder import StreamsBuilder
    from tests.parity.build import Step, _Result


class GlobalOps:
    """The steps of ``_Steps`` that concern global tables."""

    builder: StreamsBuilder
    _results: dict[str, _Result]

    def _global_table(self, step: Step, _: _Result) -> _Result:
        from tests.parity.build import _consumed, _Result

        key, value = step.get("key", "string"), step.get("value", "string")
        return _Result(self.builder.global_table(step["topic"], _consumed(step, key, value)), key, value)

    def _stream_global(self, step: Step, source: _Result) -> _Result:
        from tests.parity.build import _kstream, _Result

        table = self._results[step["with"]].stream
        if not isinstance(table, GlobalKTable):
            raise ValueError(f"step {step['id']!r} joins {step['with']!r}, which is no global table")
        stream: Any = _kstream(source)
        join = stream.join if step["kind"] == "inner" else stream.left_join
        selector = partial(functions.key_of, step["fn"])
        return _Result(join(table, selector, functions.pair, named=step.get("named")), source.key, "string")
