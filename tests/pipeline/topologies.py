"""Topologies of the tests, in a module of their own: Spark's workers import it."""

from __future__ import annotations

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()


def priced_orders() -> ps.Topology:
    """Orders joined with the price that held at their time."""
    builder = ps.StreamsBuilder()
    prices = builder.table("prices", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("prices-store"))
    orders = builder.stream("orders", ps.Consumed.with_(STRING, STRING))
    orders.left_join(prices, lambda order, price: f"{order}@{price}").to("priced", ps.Produced.with_(STRING, STRING))
    return builder.build()


def latest_words() -> ps.Topology:
    """The latest line of each key, in a store with a changelog; an empty line deletes."""
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(STRING, STRING))
    lines.group_by_key(ps.Grouped.with_(STRING, STRING)).aggregate(
        str, lambda _, line, before: line or None, ps.Materialized.as_("latest").with_value_serde(STRING)
    )
    return builder.build()


class _KeptByTime(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("kept")

    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(record.key, record.value, record.timestamp)


def kept_for_an_hour(caching: bool) -> ps.Topology:
    """Lines by key and time, in a window store."""
    supplier = ps.Stores.persistent_window_store("kept", 3_600_000, 60_000)
    store = ps.Stores.window_store_builder(supplier, STRING, STRING)
    builder = ps.StreamsBuilder()
    builder.add_state_store(store.with_caching_enabled() if caching else store)
    builder.stream("lines", ps.Consumed.with_(STRING, STRING)).process(_KeptByTime, "kept")
    return builder.build()


def exploded(times: int) -> ps.Topology:
    """Each line ``times`` times."""
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(STRING, STRING))
    lines.flat_map_values(lambda line: [line] * times).to("many", ps.Produced.with_(STRING, STRING))
    return builder.build()


def failing(lines: str, out: str) -> ps.Topology:
    """Raises at the line ``bad``."""
    builder = ps.StreamsBuilder()
    read = builder.stream(lines, ps.Consumed.with_(STRING, STRING))
    read.map_values(_refuse_bad, named=ps.Named.as_("refuses-bad")).to(out, ps.Produced.with_(STRING, STRING))
    return builder.build()


def _refuse_bad(line: str) -> str:
    if line == "bad":
        raise ValueError("this line is bad")
    return line


class _Longest(ps.Processor[str, str, None, None]):
    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        self.store = context.get_state_store("longest")

    def process(self, record: ps.Record[str, str]) -> None:
        if len(record.value) > len(self.store.get(record.key) or ""):
            self.store.put(record.key, record.value)


class _Look(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.longest = context.get_state_store("longest")

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record.with_value(f"{record.value}/{self.longest.get(record.key)}"))


def described(lines: str, users: str, words: str, out: str) -> ps.Topology:
    """Lines with what a global table has under them, and the longest of the words of their key."""
    texts = ps.Consumed.with_(STRING, STRING)
    builder = ps.StreamsBuilder()
    longest = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("longest"), STRING, STRING)
    builder.add_global_store(longest, words, texts, _Longest)
    table = builder.global_table(users, texts)
    joined = builder.stream(lines, texts).left_join(table, lambda line: line, lambda line, user: f"{line}={user}")
    joined.process(_Look).to(out, ps.Produced.with_(STRING, STRING))
    return builder.build()


def _foreign_key(value: str) -> str:
    return value.split("/")[0]


def _pair(value: str, other: str | None) -> str:
    return f"{value}+{other}"


def _table(builder: ps.StreamsBuilder, topic: str, cached: bool = True) -> ps.KTable[str, str]:
    kept: ps.Materialized[str, str] = ps.Materialized.as_(f"{topic}-table")
    return builder.table(topic, ps.Consumed.with_(STRING, STRING), kept if cached else kept.with_caching_disabled())


def _kept(name: str) -> ps.Materialized[str, str]:
    kept: ps.Materialized[str, str] = ps.Materialized.as_(name)
    return kept.with_key_serde(STRING).with_value_serde(STRING)


def foreign_key_join(left: str = "left", right: str = "right", out: str = "out", counted: bool = False) -> ps.Topology:
    """A table whose values begin with the key of another, and ``counted`` by it."""
    builder = ps.StreamsBuilder()
    other = _table(builder, right)
    joined = _table(builder, left).left_join(other, _foreign_key, _pair, materialized=_kept("joined"))
    results = joined.to_stream()
    if counted:
        by_value = results.filter(lambda _, value: value is not None).group_by(
            lambda _, value: _foreign_key(value), ps.Grouped.with_(STRING, STRING).with_name("counted")
        )
        by_value.count(ps.Materialized.as_("counted")).to_stream().to(out, ps.Produced.with_(STRING, LONG))
    else:
        results.to(out, ps.Produced.with_(STRING, STRING))
    return builder.build()


def foreign_key_join_of_a_branch() -> ps.Topology:
    """A join by foreign key of a table that is made from one branch of a stream. The records of another branch, and of
    the default branch, go to the output topic."""
    builder = ps.StreamsBuilder()
    branches = (
        builder.stream("left", ps.Consumed.with_(STRING, STRING))
        .split(named="split-")
        .branch(lambda key, _: key.endswith("3"), ps.Branched.as_("threes"))
        .branch(lambda key, _: not key.endswith("7"), ps.Branched.as_("most"))
        .default_branch(ps.Branched.as_("sevens"))
    )
    for name in ("threes", "sevens"):
        branches[f"split-{name}"].to("out", ps.Produced.with_(STRING, STRING))
    left = branches["split-most"].to_table(_kept("most"))
    left.join(_table(builder, "right"), _foreign_key, _pair, materialized=_kept("joined")).to_stream().to(
        "out", ps.Produced.with_(STRING, STRING)
    )
    return builder.build()


def foreign_key_join_merged_with_its_input() -> ps.Topology:
    """A stream as a table that is joined by foreign key, and merged with the results."""
    builder = ps.StreamsBuilder()
    left = builder.stream("left", ps.Consumed.with_(STRING, STRING))
    joined = left.to_table(_kept("kept")).join(_table(builder, "right"), _foreign_key, _pair)
    left.merge(joined.to_stream()).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def foreign_key_join_with_views() -> ps.Topology:
    """A join of two tables by foreign key, and views: counted, and joined with the left table."""
    builder = ps.StreamsBuilder()
    other, left = _table(builder, "right"), _table(builder, "left")
    left.join(other, _foreign_key, _pair, materialized=_kept("joined")).to_stream().to(
        "out", ps.Produced.with_(STRING, STRING)
    )
    views = builder.stream("views", ps.Consumed.with_(STRING, STRING))
    views.left_join(left, _pair).to("viewed", ps.Produced.with_(STRING, STRING))
    views.group_by_key(ps.Grouped.with_(STRING, STRING)).count(ps.Materialized.as_("counted"))
    return builder.build()


def foreign_key_join_of_rows_that_expire() -> ps.Topology:
    """A join of a table whose rows expire, and views, which also make them expire."""
    builder = ps.StreamsBuilder()
    texts = ps.Consumed.with_(STRING, STRING)
    left = builder.table("left", texts, _kept("left-table").with_ttl(1000))
    joined = left.join(_table(builder, "right"), _foreign_key, _pair)
    joined.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    builder.stream("views", texts).left_join(left, _pair).to("viewed", ps.Produced.with_(STRING, STRING))
    return builder.build()


def foreign_key_chain(left_cached: bool = True) -> ps.Topology:
    """The result of a join is joined again. ``left_cached``: the left table and the first result have a cache."""
    builder = ps.StreamsBuilder()
    left, kept = _table(builder, "left", left_cached), _kept("first")
    if not left_cached:
        kept = kept.with_caching_disabled()
    first = left.join(_table(builder, "right"), _foreign_key, _pair, materialized=kept)
    second = first.left_join(_table(builder, "third"), _foreign_key, _pair, materialized=_kept("second"))
    second.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def self_join() -> ps.Topology:
    """A table joined with itself."""
    builder = ps.StreamsBuilder()
    people = _table(builder, "people")
    people.left_join(people, _foreign_key, _pair, materialized=_kept("joined")).to_stream().to(
        "out", ps.Produced.with_(STRING, STRING)
    )
    return builder.build()


class _Kept(ps.Processor[str, str, None, None]):
    """Keeps the last value of each key in a plain store, and with its time in another."""

    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        self.plain, self.stamped = context.get_state_store("plain"), context.get_state_store("stamped")

    def process(self, record: ps.Record[str, str]) -> None:
        self.plain.put(record.key, record.value)
        self.stamped.put(record.key, ps.ValueAndTimestamp(record.value, record.timestamp))


LOGGED = (
    "counts",
    "windows",
    "sessions",
    "versioned",
    "fleeting",
    "plain",
    "stamped",
    "table",
    "held-store",
    "in-memory",
)
"""The stores of :func:`every_kind_of_store`, except the global ones and ``unlogged``."""
IN_MEMORY = ("held-store", "in-memory")


def every_kind_of_store(
    lines: str = "lines", table: str = "table", users: str = "users", out: str = "out"
) -> ps.Topology:
    """One task with stores of every kind, and a global one."""
    texts, builder, stores = ps.Consumed.with_(STRING, STRING), ps.StreamsBuilder(), ps.Stores
    builder.add_state_store(stores.key_value_store_builder(stores.persistent_key_value_store("plain"), STRING, STRING))
    stamped = stores.persistent_key_value_store("stamped")
    builder.add_state_store(stores.timestamped_key_value_store_builder(stamped, STRING, STRING))
    read = builder.stream(lines, texts)
    grouped = read.group_by_key(ps.Grouped.with_(STRING, STRING))
    counts = grouped.count(ps.Materialized.as_("counts"))
    grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000)).count(ps.Materialized.as_("windows"))
    grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(1000)).count(ps.Materialized.as_("sessions"))
    grouped.count(ps.Materialized.as_(stores.in_memory_key_value_store("in-memory")))
    grouped.count(ps.Materialized.as_("unlogged").with_logging_disabled())
    grouped.reduce(_last, _kept("fleeting").with_ttl(3_600_000))
    versioned: ps.Materialized[str, str] = ps.Materialized.as_(
        stores.persistent_versioned_key_value_store("versioned", 3_600_000)
    )
    read.to_table(versioned.with_key_serde(STRING).with_value_serde(STRING))
    read.process(_Kept, "plain", "stamped")
    held = counts.suppress(ps.Suppressed.until_time_limit(3_600_000, ps.BufferConfig.unbounded()).with_name("held"))
    held.to_stream().to(out, ps.Produced.with_(STRING, LONG))
    entries = builder.table(table, texts, _kept("table"))
    people = builder.global_table(users, texts, _kept("users"))
    joined = read.left_join(entries, _pair).left_join(people, lambda key, _: key, _pair)
    joined.to(out, ps.Produced.with_(STRING, STRING))
    return builder.build()


def _last(_: str, value: str) -> str:
    return value
