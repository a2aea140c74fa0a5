"""The programs of Kafka Streams' system tests: ``SmokeTestClient`` and ``RelationalSmokeTest.App``, line by line.

Their tests compare ``describe()`` with that of the Java programs.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any, NamedTuple

from typing_extensions import override

import penstock as ps

STRING, INTEGER, LONG = ps.Serdes.string(), ps.Serdes.integer(), ps.Serdes.long()
SHORT, DOUBLE = ps.Serdes.short(), ps.Serdes.double()
_LARGEST, _SMALLEST = 2**31 - 1, -(2**31)
SMOKE_TOPICS = (
    "data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed", "cnt", "avg",
    "tagg", "fk",
)  # fmt: skip
RELATIONAL_TOPICS = ("in-article", "in-comment", "out-augmented-article", "out-augmented-comment")


class _Ignores(ps.Processor[str, Any, None, None]):
    """Stands for the processor that prints how many records it has seen."""

    @override
    def process(self, record: ps.Record[str, Any]) -> None:
        pass


def _is_flush(key: str, value: object) -> bool:
    return key == "flush"


def _is_windowed_flush(key: ps.Windowed[str], value: object) -> bool:
    return key.key == "flush"


def _unwindowed(key: ps.Windowed[str], value: object) -> str:
    return key.key


def _as_text(key: ps.Windowed[str], value: int) -> tuple[str, int]:
    return str(key), value


def _streamed(table: ps.KTable[ps.Windowed[str], int], topic: str) -> None:
    table.to_stream().filter_not(_is_windowed_flush).map(_as_text).to(topic, ps.Produced.with_(STRING, INTEGER))


def _derived(
    max_table: ps.KTable[str, int],
    min_table: ps.KTable[str, int],
    sum_table: ps.KTable[str, int],
    cnt_table: ps.KTable[str, int],
) -> None:
    """Adds the topics that are made of these tables: ``dif``, ``avg`` and ``tagg``."""
    max_table.join(min_table, lambda largest, least: largest - least).to_stream().filter_not(_is_flush).to(
        "dif", ps.Produced.with_(STRING, INTEGER)
    )
    sum_table.join(cnt_table, lambda sum_, count: sum_ / count).to_stream().filter_not(_is_flush).to(
        "avg", ps.Produced.with_(STRING, DOUBLE)
    )

    cnt_table.group_by(
        lambda key, value: (None if value is None else str(value), 1), ps.Grouped.with_(STRING, LONG)
    ).aggregate(
        lambda: 0,
        lambda key, value, aggregate: aggregate + value,
        lambda key, value, aggregate: aggregate - value,
        ps.Materialized.as_(ps.Stores.in_memory_key_value_store("cntByCnt"))
        .with_key_serde(STRING)
        .with_value_serde(LONG),
    ).to_stream().to("tagg", ps.Produced.with_(STRING, LONG))


def smoke() -> ps.Topology:
    """Returns the topology of ``SmokeTestClient``."""
    builder = ps.StreamsBuilder()
    source = builder.stream("data", ps.Consumed.with_(STRING, INTEGER))
    source.filter_not(_is_flush).to("echo", ps.Produced.with_(STRING, INTEGER))
    data = source.filter(lambda key, value: value is None or value != _LARGEST)
    data.process(_Ignores)

    grouped = data.group_by_key(ps.Grouped.with_(STRING, INTEGER))
    smallest = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(days=1), timedelta(minutes=1))).aggregate(
        lambda: _LARGEST,
        lambda key, value, aggregate: min(value, aggregate),
        ps.Materialized.as_("uwin-min").with_value_serde(INTEGER).with_retention(timedelta(hours=25)),
    )
    _streamed(smallest, "min-raw")
    closed = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())
    _streamed(smallest.suppress(closed), "min-suppressed")
    smallest.to_stream(_unwindowed).filter_not(_is_flush).to("min", ps.Produced.with_(STRING, INTEGER))

    small = ps.TimeWindows.of_size_and_grace(timedelta(seconds=2), timedelta(seconds=30))
    sums = grouped.windowed_by(small.advance_by(timedelta(seconds=1))).reduce(lambda one, other: one + other)
    _streamed(sums, "sws-raw")
    _streamed(sums.suppress(closed), "sws-suppressed")

    min_table = builder.table("min", ps.Consumed.with_(STRING, INTEGER), ps.Materialized.as_("minStoreName"))
    min_table.to_stream().process(_Ignores)

    two_days = ps.TimeWindows.of_size_with_no_grace(timedelta(days=2))
    grouped.windowed_by(two_days).aggregate(
        lambda: _SMALLEST,
        lambda key, value, aggregate: max(value, aggregate),
        ps.Materialized.as_("uwin-max").with_value_serde(INTEGER),
    ).to_stream(_unwindowed).filter_not(_is_flush).to("max", ps.Produced.with_(STRING, INTEGER))
    max_table = builder.table("max", ps.Consumed.with_(STRING, INTEGER), ps.Materialized.as_("maxStoreName"))
    max_table.to_stream().process(_Ignores)

    grouped.windowed_by(two_days).aggregate(
        lambda: 0,
        lambda key, value, aggregate: value + aggregate,
        ps.Materialized.as_("win-sum").with_value_serde(LONG),
    ).to_stream(_unwindowed).filter_not(_is_flush).to("sum", ps.Produced.with_(STRING, LONG))
    sum_table = builder.table("sum", ps.Consumed.with_(STRING, LONG))
    sum_table.to_stream().process(_Ignores)

    grouped.windowed_by(two_days).count(ps.Materialized.as_("uwin-cnt")).to_stream(_unwindowed).filter_not(
        _is_flush
    ).to("cnt", ps.Produced.with_(STRING, LONG))
    cnt_table = builder.table("cnt", ps.Consumed.with_(STRING, LONG), ps.Materialized.as_("cntStoreName"))
    cnt_table.to_stream().process(_Ignores)

    _derived(max_table, min_table, sum_table, cnt_table)
    return builder.build()


class Article(NamedTuple):
    """An article, and the number of its comments once it is known."""

    key: int
    timestamp: int
    text: str
    comments: int | None = None


class Comment(NamedTuple):
    """A comment on an article, and the beginning of the article once it is known."""

    key: int
    timestamp: int
    text: str
    article: int
    prefix: str | None = None


_HEAD, _INT, _COUNT = struct.Struct(">iqi"), struct.Struct(">i"), struct.Struct(">q")


def _article_bytes(article: Article) -> bytes:
    text = article.text.encode()
    count = b"" if article.comments is None else _COUNT.pack(article.comments)
    return _HEAD.pack(article.key, article.timestamp, len(text)) + text + count


def _article(data: bytes) -> Article:
    key, timestamp, size = _HEAD.unpack_from(data)
    rest = data[_HEAD.size + size :]
    text = data[_HEAD.size : _HEAD.size + size].decode()
    return Article(key, timestamp, text, _COUNT.unpack(rest)[0] if rest else None)


def _comment_bytes(comment: Comment) -> bytes:
    text = comment.text.encode()
    prefix = b""
    if comment.prefix is not None:
        prefix = _INT.pack(len(comment.prefix.encode())) + comment.prefix.encode()
    head = _HEAD.pack(comment.key, comment.timestamp, len(text))
    return head + text + _INT.pack(comment.article) + prefix


def _comment(data: bytes) -> Comment:
    key, timestamp, size = _HEAD.unpack_from(data)
    text, rest = data[_HEAD.size : _HEAD.size + size].decode(), data[_HEAD.size + size :]
    prefix = rest[2 * _INT.size :].decode() if len(rest) > _INT.size else None
    return Comment(key, timestamp, text, _INT.unpack_from(rest)[0], prefix)


ARTICLE = ps.Serde("article", _article_bytes, _article)
COMMENT = ps.Serde("comment", _comment_bytes, _comment)


def relational() -> ps.Topology:
    """Returns the topology of ``RelationalSmokeTest.App``."""
    builder = ps.StreamsBuilder()
    articles = builder.table("in-article", ps.Consumed.with_(INTEGER, ARTICLE))
    comments = builder.table("in-comment", ps.Consumed.with_(INTEGER, COMMENT))
    counts = comments.group_by(lambda key, comment: (comment.article, 1), ps.Grouped.with_(INTEGER, SHORT)).count()
    articles.left_join(
        counts,
        lambda article, count: article._replace(comments=count or 0),
        ps.Materialized.with_(None, ARTICLE),
    ).to_stream().to("out-augmented-article")
    comments.join(
        articles,
        lambda comment: comment.article,
        lambda comment, article: comment._replace(prefix=article.text[:10]),
        ps.Materialized.with_(None, COMMENT),
    ).to_stream().to("out-augmented-comment")
    return builder.build()
