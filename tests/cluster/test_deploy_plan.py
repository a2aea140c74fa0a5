"""The plan of a deploy (what is kept, moved, restored or left behind), from two programs and a made-up Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cluster.programs.deploy_plan import RESTORED_PER_S, DeployPlan, Fate, InKafka, plan_deploy
from penstock.cluster.programs.description import Description, description_of, read_description
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
TEXT = ps.Consumed.with_(STRING, STRING)
BY_TEXT = ps.Grouped.with_(STRING, STRING)
Build = Callable[[ps.StreamsBuilder], object]


def described(*builds: Build, application_id: str = "a", **config: Any) -> Description:
    """The description of a program that each of ``builds`` has added to."""
    builder = ps.StreamsBuilder()
    for build in builds:
        build(builder)
    entries = {"application.id": application_id, "default.key.serde": STRING, "default.value.serde": STRING, **config}
    return description_of(builder.build(entries), StreamsConfig.of(entries))


def words(store: str | None = "counts", **materialized: Any) -> Build:
    """Counts the words of ``lines``: sub-topologies that are joined by a repartition topic."""
    named: Any = ps.Materialized.as_(store) if store is not None else ps.Materialized.with_(STRING, LONG)
    for option, value in materialized.items():
        named = getattr(named, option)(*value)

    def build(builder: ps.StreamsBuilder) -> None:
        split = builder.stream("lines", TEXT).flat_map_values(str.split)
        grouped = split.group_by(lambda _, word: word, BY_TEXT)
        grouped.count(named).to_stream().to("out", ps.Produced.with_(STRING, LONG))

    return build


def users(name: str = "users", topic: str = "users") -> Build:
    """A table of its own."""
    return lambda builder: builder.table(topic, TEXT, ps.Materialized.as_(name))


def by_key(store: str, topic: str = "lines") -> Build:
    """A count without a repartition topic."""
    return lambda builder: builder.stream(topic, TEXT).group_by_key().count(ps.Materialized.as_(store))


def stores(plan: DeployPlan) -> dict[str, tuple[Fate, int | None, int | None]]:
    return {each.name: (each.fate, each.was, each.now) for each in plan.stores}


def tasks(plan: DeployPlan) -> list[tuple[Fate, int | None, int | None]]:
    return [(each.fate, each.was, each.now) for each in plan.tasks]


def topics(plan: DeployPlan, fate: Fate) -> set[str]:
    return {each.name for each in plan.topics if each.fate is fate}


def note(plan: DeployPlan, store: str) -> str:
    [found] = [each.note for each in plan.stores if each.name == store]
    return found


def note_of_topic(plan: DeployPlan, topic: str) -> str:
    [found] = [each.note for each in plan.topics if each.name == topic]
    return found


# ---- what is kept, moved, new ----


def test_the_same_program_keeps_everything() -> None:
    plan = plan_deploy(described(words(), users()), described(words(), users()))
    assert {fate for fate, _, _ in tasks(plan)} == {Fate.KEPT}
    assert {fate for fate, _, _ in stores(plan).values()} == {Fate.KEPT}
    assert topics(plan, Fate.KEPT) == {
        "a-counts-repartition", "a-counts-changelog", "a-users-changelog", "lines", "users", "out",
    }  # fmt: skip
    assert len(plan.topics) == 6
    assert not plan.loses


def test_an_operator_added_in_front_moves_the_tasks_behind_it_and_their_stores_are_restored() -> None:
    plan = plan_deploy(described(words()), described(users(), words()))
    assert tasks(plan) == [(Fate.NEW, None, 0), (Fate.MOVED, 0, 1), (Fate.MOVED, 1, 2)]
    assert stores(plan) == {"users": (Fate.NEW, None, 0), "counts": (Fate.MOVED, 1, 2)}
    assert note(plan, "counts") == "its tasks were 1_*: restored from a-counts-changelog"
    assert topics(plan, Fate.NEW) == {"a-users-changelog", "users"}
    assert not plan.loses


def test_a_task_that_gets_another_store_keeps_its_own() -> None:
    both: Build = lambda builder: [  # noqa: E731
        stream.group_by_key().count(ps.Materialized.as_(name))
        for stream in [builder.stream("lines", TEXT)]
        for name in ("one", "two")
    ]
    plan = plan_deploy(described(by_key("one")), described(both))
    assert tasks(plan) == [(Fate.CHANGED, 0, 0)]
    assert plan.tasks[0].note == "stores +two"
    assert stores(plan) == {"one": (Fate.KEPT, 0, 0), "two": (Fate.NEW, None, 0)}
    assert note(plan, "two") == "begins empty: records of lines that were processed before are not in it"


def test_a_new_store_behind_a_repartition_topic_lacks_what_its_input_had_before() -> None:
    before: Build = lambda builder: builder.stream("lines", TEXT).to("copy")  # noqa: E731
    plan = plan_deploy(described(before), described(before, words()))
    assert note(plan, "counts") == "begins empty: records of lines that were processed before are not in it"
    assert note(plan_deploy(described(users()), described(users(), words())), "counts") == "begins empty"


def test_topics_that_feed_each_other_are_followed_once() -> None:
    def joined(builder: ps.StreamsBuilder) -> None:
        left, right = builder.table("users", TEXT, ps.Materialized.as_("left")), builder.table("names", TEXT)
        left.join(
            right, lambda value: value, lambda one, other: one + other, materialized=ps.Materialized.as_("joined")
        )

    plan = plan_deploy(described(users("other")), described(joined))
    assert note(plan, "joined") == "begins empty; is it other under another name?"
    before: Build = lambda builder: builder.stream("names", TEXT).to("copy")  # noqa: E731
    plan = plan_deploy(described(before), described(joined))
    assert note(plan, "joined") == "begins empty: records of names that were processed before are not in it"


def test_a_store_that_the_new_program_does_not_have_is_orphaned() -> None:
    plan = plan_deploy(described(users(), words()), described(users()))
    assert tasks(plan) == [(Fate.KEPT, 0, 0), (Fate.GONE, 1, None), (Fate.GONE, 2, None)]
    assert stores(plan)["counts"] == (Fate.ORPHANED, 2, None)
    assert topics(plan, Fate.ORPHANED) == {"a-counts-repartition", "a-counts-changelog"}
    assert topics(plan, Fate.GONE) == {"lines", "out"}
    assert plan.loses


def test_a_generated_name_that_changes_is_explained() -> None:
    filtered: Build = lambda builder: (  # noqa: E731
        builder.stream("lines", TEXT).filter(lambda _, line: bool(line)).group_by_key().count()
    )
    plain: Build = lambda builder: builder.stream("lines", TEXT).group_by_key().count()  # noqa: E731
    plan = plan_deploy(described(plain), described(filtered))
    was, now = "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "KSTREAM-AGGREGATE-STATE-STORE-0000000002"
    assert stores(plan) == {now: (Fate.NEW, None, 0), was: (Fate.ORPHANED, 0, None)}
    assert note(plan, now) == f"begins empty; is it {was} under another name?"
    assert note(plan, was).endswith("name it by Materialized.as_")
    assert plan.loses


def test_each_kind_of_store_is_named_by_its_own_option() -> None:
    strings = ps.Serdes.string()
    windows = ps.TimeWindows.of_size_and_grace(10, 5)
    joined = ps.JoinWindows.of_time_difference_and_grace(10, 5)

    def program(builder: ps.StreamsBuilder) -> None:
        stream = builder.stream("lines", ps.Consumed.with_(strings, strings))
        counts = stream.group_by_key(ps.Grouped.with_(strings, strings)).windowed_by(windows).count()
        counts.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
        stream.outer_join(
            builder.stream("others", ps.Consumed.with_(strings, strings)),
            lambda left, right: left,
            joined,
            ps.StreamJoined.with_(strings, strings, strings),
        )
        table = builder.table("a", ps.Consumed.with_(strings, strings))
        table.join(builder.table("b", ps.Consumed.with_(strings, strings)), lambda it: it, lambda one, other: one)

    plan = plan_deploy(described(program), described(users()))
    options = {each.name: each.note.rsplit(" ", 1)[-1] for each in plan.stores if "name it by" in each.note}
    assert {name.split("-0")[0]: option for name, option in options.items()} == {
        "KSTREAM-AGGREGATE-STATE-STORE": "Materialized.as_",
        "KTABLE-SUPPRESS-STATE-STORE": "Suppressed.….with_name",
        "KSTREAM-OUTERTHIS": "StreamJoined.as_",
        "KSTREAM-OUTEROTHER": "StreamJoined.as_",
        "KSTREAM-OUTERSHARED": "StreamJoined.as_",
        "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE": "TableJoined.as_",
        "a-STATE-STORE": "Materialized.as_",
        "b-STATE-STORE": "Materialized.as_",
    }


def test_another_application_id_takes_over_nothing() -> None:
    plan = plan_deploy(described(words()), described(words(), application_id="b"))
    assert [(each.name, each.fate, each.was, each.now) for each in plan.stores] == [
        ("counts", Fate.REBUILT, None, 1), ("counts", Fate.ORPHANED, 1, None),
    ]  # fmt: skip
    assert topics(plan, Fate.ORPHANED) == {"a-counts-repartition", "a-counts-changelog"}
    assert topics(plan, Fate.NEW) == {"b-counts-repartition", "b-counts-changelog", "lines"}
    assert tasks(plan) == [(Fate.NEW, None, 0), (Fate.NEW, None, 1), (Fate.GONE, 0, None), (Fate.GONE, 1, None)]
    assert plan.loses


# ---- stores that change ----


@pytest.mark.parametrize(
    ("was", "now", "fate", "says"),
    [
        (words(), words(with_store_type=(ps.StoreType.IN_MEMORY,)), Fate.RESTORED, "in memory: at every start"),
        (words(with_store_type=(ps.StoreType.IN_MEMORY,)), words(), Fate.RESTORED, "was in memory"),
        (words(), words(with_logging_disabled=()), Fate.KEPT, ""),
        (words(with_logging_disabled=()), words(), Fate.REBUILT, "its changelog is now a-counts-changelog, which"),
        (words(with_logging_disabled=()), words(with_logging_disabled=()), Fate.KEPT, ""),
    ],
)
def test_the_kind_of_a_store_may_change(was: Build, now: Build, fate: Fate, says: str) -> None:
    plan = plan_deploy(described(was), described(now))
    assert stores(plan) == {"counts": (fate, 1, 1)}
    assert note(plan, "counts").startswith(says)
    assert bool(says) == bool(note(plan, "counts"))
    assert not plan.loses or fate is Fate.REBUILT or topics(plan, Fate.ORPHANED)


def test_a_store_without_changelog_whose_tasks_move_is_lost() -> None:
    kept = words(with_logging_disabled=())
    plan = plan_deploy(described(kept), described(users(), kept))
    assert stores(plan)["counts"] == (Fate.REBUILT, 1, 2)
    assert note(plan, "counts") == "it has no changelog to be restored from"


def test_stores_with_headers_are_restored() -> None:
    plan = plan_deploy(described(words()), described(words(), **{"dsl.store.format": "HEADERS"}))
    assert stores(plan) == {"counts": (Fate.RESTORED, 1, 1)}
    assert note(plan, "counts") == "was timestamped key-value, is timestamped key-value, with headers"
    assert not plan.loses


def test_a_store_of_another_kind_under_the_same_name_must_be_rebuilt() -> None:
    windowed: Build = lambda builder: (  # noqa: E731
        builder.stream("lines", TEXT)
        .group_by_key()
        .windowed_by(ps.TimeWindows.of_size_with_no_grace(1000))
        .count(ps.Materialized.as_("one"))
    )
    plan = plan_deploy(described(by_key("one")), described(windowed))
    assert stores(plan) == {"one": (Fate.REBUILT, 0, 0)}
    assert note(plan, "one").startswith("was a timestamped key-value store, is a timestamped window store, whose")
    assert plan.loses


def table(serde: ps.Serde[Any]) -> Build:
    return lambda builder: builder.table("users", ps.Consumed.with_(STRING, serde), ps.Materialized.as_("users"))


def test_a_store_that_is_read_by_another_serde_than_it_was_written_by_must_be_rebuilt() -> None:
    plan = plan_deploy(described(table(STRING)), described(table(ps.Serdes.json())))
    assert stores(plan) == {"users": (Fate.REBUILT, 0, 0)}
    assert note(plan, "users").startswith("its values were written by serde string and are read by json: reset")
    of_a_type = plan_deploy(described(table(ps.Serdes.json())), described(table(ps.Serdes.json(dict[str, int]))))
    assert stores(of_a_type) == {"users": (Fate.KEPT, 0, 0)}


def test_a_table_whose_source_becomes_its_changelog_is_restored_from_it_and_the_other_way_round_is_lost() -> None:
    own, source = described(users()), described(users(), **{"topology.optimization": "all"})
    plan = plan_deploy(own, source)
    assert stores(plan) == {"users": (Fate.RESTORED, 0, 0)}
    assert note(plan, "users") == "from its source topic users, which is its changelog now"
    assert topics(plan, Fate.ORPHANED) == {"a-users-changelog"}
    back = plan_deploy(source, own)
    assert stores(back) == {"users": (Fate.REBUILT, 0, 0)}


def test_global_stores_are_kept_whatever_their_number_and_new_ones_are_filled_from_their_topics() -> None:
    shared: Build = lambda builder: builder.global_table("rates", TEXT, ps.Materialized.as_("rates"))  # noqa: E731
    kept = plan_deploy(described(users(), shared), described(users(), words(), shared))
    assert stores(kept)["rates"] == (Fate.KEPT, 1, 3)
    new = plan_deploy(described(users()), described(users(), shared), InKafka(records={"rates": 8}))
    assert stores(new)["rates"] == (Fate.RESTORED, None, 1)
    assert note(new, "rates") == "filled from topic rates"
    assert new.records == 8


# ---- with a broker ----


def kafka(**given: Mapping[Any, Any]) -> InKafka:
    return InKafka(**given)  # type: ignore[arg-type]  # each a mapping of its own kind


def test_restored_records_are_counted_and_their_time_is_estimated() -> None:
    there = kafka(records={"a-counts-changelog": 2 * RESTORED_PER_S, "a-users-changelog": 7}, tasks={0: 1, 1: 4, 2: 4})
    plan = plan_deploy(described(words()), described(users(), words()), there)
    [counts] = [each for each in plan.stores if each.name == "counts"]
    assert (counts.records, counts.seconds) == (2 * RESTORED_PER_S, 2.0)
    assert plan.records == 2 * RESTORED_PER_S
    assert [each.tasks for each in plan.tasks] == [1, 4, 4]
    assert plan_deploy(described(words()), described(users(), words())).records is None


def test_records_that_wait_in_an_orphaned_repartition_topic_are_reported() -> None:
    there = kafka(unread={"a-counts-repartition": 1200}, records={"a-counts-repartition": 1500})
    plan = plan_deploy(described(users(), words()), described(users()), there)
    [found] = [each for each in plan.topics if each.name == "a-counts-repartition"]
    assert (found.fate, found.records) == (Fate.ORPHANED, 1500)
    assert found.note == "1,200 unprocessed records will be lost"


def test_an_internal_topic_that_would_need_other_partitions_is_refused() -> None:
    there = kafka(partitions={"a-counts-changelog": 2}, wanted={"a-counts-changelog": 4, "a-counts-repartition": 4})
    plan = plan_deploy(described(words()), described(words()), there)
    assert topics(plan, Fate.REFUSED) == {"a-counts-changelog"}
    assert (
        note_of_topic(plan, "a-counts-changelog") == "it has 2 partitions and needs 4: the application would not start"
    )
    assert plan.loses


def test_a_changelog_left_from_an_earlier_run_is_reported() -> None:
    there = kafka(partitions={"a-users-changelog": 2})
    plan = plan_deploy(described(words()), described(words(), users()), there)
    assert note_of_topic(plan, "a-users-changelog") == "the topic exists already; its records will be read"


def test_a_program_that_would_not_start_counts_as_a_loss() -> None:
    assert plan_deploy(described(words()), described(words()), InKafka(refused="no topic")).loses


# ---- descriptions ----


def test_a_file_that_is_no_description_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text('{"application_id": "a", "subtopologies": [{"id": 0}]}')
    with pytest.raises(ConfigError, match=r"old\.json is not what .* prints: Object missing required field"):
        read_description(file)
    file.write_text("word_count:app")
    with pytest.raises(ConfigError, match=r"old\.json is not what"):
        read_description(file)
    with pytest.raises(ConfigError, match=r"nowhere cannot be read"):
        read_description(tmp_path / "nowhere")
