"""Calls out: what their functions return is inferred."""

from __future__ import annotations

from typing import Any, assert_type

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))


async def length(value: str) -> int:
    return len(value)


async def length_of(value: str, context: ps.CallContext) -> int:
    return len(value) + context.attempt


async def split(record: ps.Record[str, str]) -> list[ps.Record[int, str]]:
    return [record.with_key(len(record.key))]


def split_here(record: ps.Record[str, str], context: ps.CallContext) -> list[ps.Record[int, str]]:
    return [record.with_key(context.attempt)]


async def split_later(record: ps.Record[str, str], context: ps.CallContext) -> list[ps.Record[int, str]]:
    return split_here(record, context)


class Method:
    remote: Any = None


assert_type(lines.map_values_async(length), ps.KStream[str, int])
assert_type(lines.map_values_async(length_of, ps.Calls(max_in_flight=10)), ps.KStream[str, int])
assert_type(lines.map_values_async(len, named="lengths"), ps.KStream[str, int])
assert_type(lines.map_values_async(Method()), ps.KStream[str, Any])
assert_type(lines.process_async(split), ps.KStream[int, str])
assert_type(lines.process_async(split_here), ps.KStream[int, str])
assert_type(lines.process_async(split_later), ps.KStream[int, str])
assert_type(
    ps.Calls(order="none", retry=ps.Retry(tries=2, retryable=lambda error: bool(error.args))).retry, ps.Retry | None
)


def lengths(values: list[str]) -> list[int]:
    return [len(value) for value in values]


async def lengths_later(values: list[str]) -> list[int]:
    return lengths(values)


assert_type(lines.map_batch(lengths, max_records=10), ps.KStream[str, int])
assert_type(lines.map_batch(lengths_later), ps.KStream[str, int])
