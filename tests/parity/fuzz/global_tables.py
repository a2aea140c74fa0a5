"""Global tables, and streams that are joined with them."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz import words
from tests.parity.fuzz.program import STREAM, Program

KIND = "global"
"""The kind of global tables, from which only a join continues."""


def global_table(program: Program) -> bool:
    """A global table of a topic of its own, or of one that the program writes."""
    rng, written = program.rng, None
    if program.chance(0.25):
        written = program.any_of(STREAM, "string")
    value = written.value if written is not None else rng.choice(("string", "string", "long"))
    topic = f"glob{program.number()}"
    if written is None:
        program.inputs[topic] = ("string", value)
    else:
        program.end("to", written, topic=topic)
    program.add("global_table", KIND, "string", value, topic=topic, key="string", value=value)
    return True


def stream_global(program: Program) -> bool:
    """A join of a stream with a global table, which is made for it if there is none."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    if program.any_of(KIND) is None:
        global_table(program)
    table = program.any_of(KIND)
    assert table is not None
    fields: dict[str, Any] = {"with": table.id, "kind": program.rng.choice(("inner", "left"))}
    fields["fn"] = words.selector(program.rng, source.key)
    if program.chance(0.1):
        fields["named"] = f"with-global-{program.number()}"
    program.add("stream_global", STREAM, source.key, "string", source, **fields)
    return True
