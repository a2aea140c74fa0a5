"""The plan that ``penstock reset`` makes before it does anything, from a program or an id and a made-up Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli import reset, reset_target
from penstock.cli.reset_plan import KafkaNow, OwnTopics, ResetPlan, Wanted, plan_reset
from penstock.cli.reset_target import FromFile, ShiftBy, Target, ToEarliest, ToLatest, ToOffset, ToTime
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, MissingTopicError
from penstock.common.ids import TopicPartition

STRING = ps.Serdes.string()
LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
NOW_MS = 1_000_000_000


class Log:
    """Each partition has the records 10 to 99; that with offset n has the time n."""

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        return {each: min(max(time_ms, 10), 100) for each in partitions}


def own_topics(*existing: str, application_id: str = "a") -> OwnTopics:
    """Returns the topics of a word count whose words go through a topic of the user's own."""
    builder = ps.StreamsBuilder()
    text = ps.Consumed.with_(STRING, STRING)
    builder.stream("lines", text).flat_map_values(str.split).to("words")
    words = builder.stream("words", text).group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING))
    words.count(ps.Materialized.as_("counts")).to_stream().to("out")
    builder.table("users", text, ps.Materialized.as_("users").with_logging_disabled())
    config = {"application.id": application_id, "default.key.serde": STRING, "default.value.serde": STRING}
    return OwnTopics.of(builder.build(), StreamsConfig.of(config), existing)


OWN = {"a-counts-changelog": 2, "a-counts-repartition": 2}
USERS = {"lines": 2, "words": 1, "users": 1, "out": 1}


def plan(
    own: OwnTopics | None,
    *,
    topics: dict[str, int] | None = None,
    groups: Iterable[str] = ("a",),
    committed: dict[TopicPartition, int] | None = None,
    **wanted: Any,
) -> ResetPlan:
    now = KafkaNow(USERS | OWN if topics is None else topics, frozenset(groups), committed or {})
    return plan_reset("a", own, Wanted(**wanted), now, Log())


def moved(found: ResetPlan) -> dict[str, int]:
    assert len({each.partition for each in found.offsets}) == len(found.offsets)
    return {str(each.partition): each.after for each in found.offsets}


# ---- topics of a program ----


def test_the_topics_of_a_program_are_divided_into_inputs_intermediate_and_internal_ones() -> None:
    assert own_topics() == OwnTopics(
        frozenset({"lines", "users"}), frozenset({"words"}), frozenset({"a-counts-changelog", "a-counts-repartition"})
    )


def test_input_goes_to_the_beginning_intermediate_topics_to_the_end_and_internal_ones_are_deleted() -> None:
    found = plan(own_topics(), committed={LINES[0]: 57})
    assert moved(found) == {"lines-0": 10, "lines-1": 10, "users-0": 10, "words-0": 100}
    assert [each.before for each in found.offsets if each.partition in LINES] == [57, None]
    assert found.deleted == ("a-counts-changelog", "a-counts-repartition")
    assert found.left == {}
    found.refuse_unasked()


def test_an_intermediate_topic_that_is_named_as_input_is_read_again() -> None:
    assert moved(plan(own_topics(), input_topics=("words",))) == {"words-0": 10}


def test_an_input_topic_that_is_named_as_intermediate_is_skipped() -> None:
    found = plan(own_topics(), intermediate_topics=("users", "words"))
    assert moved(found) == {"lines-0": 10, "lines-1": 10, "users-0": 100, "words-0": 100}


def test_a_topic_has_one_place_to_be_reset_to() -> None:
    with pytest.raises(ConfigError, match="'words' is named as an input and as an intermediate topic"):
        plan(own_topics(), input_topics=("words",), intermediate_topics=("words",))


def test_a_topic_that_the_program_does_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a' does not read 'out'; it reads 'lines', 'users', 'words'"):
        plan(own_topics(), input_topics=("out",))


def test_a_topic_of_the_program_that_does_not_exist_has_nothing_to_reset_and_one_that_was_named_is_an_error() -> None:
    without = {"words": 1, "users": 1, "out": 1}
    found = plan(own_topics(), topics=without)
    assert (found.absent, moved(found), found.deleted) == (("lines",), {"users-0": 10, "words-0": 100}, ())
    with pytest.raises(MissingTopicError, match="no topic 'lines': nothing was done"):
        plan(None, topics=without, input_topics=("lines",))


def test_topics_by_pattern_are_those_that_match_now() -> None:
    builder = ps.StreamsBuilder()
    builder.stream(re.compile("orders-.*"), ps.Consumed.with_(STRING, STRING)).to("out")
    own = OwnTopics.of(builder.build(), StreamsConfig.of({"application.id": "a"}), {"orders-eu", "orders-us", "out"})
    assert own.inputs == {"orders-eu", "orders-us"}


def test_a_table_that_has_its_source_for_changelog_keeps_it() -> None:
    builder = ps.StreamsBuilder()
    builder.table("users", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("users")).to_stream().to("out")
    config = StreamsConfig.of({"application.id": "a", "topology.optimization": "all"})
    own = OwnTopics.of(builder.build({"topology.optimization": "all"}), config, ())
    assert own.inputs == {"users"}
    assert not own.internal


# ---- whose topics ----


def test_the_topics_of_an_application_with_a_longer_id_are_never_those_of_the_shorter_one() -> None:
    other = {"a-b-counts-changelog": 1, "a-b-counts-repartition": 1}
    found = plan(own_topics(), topics=USERS | OWN | other, groups=("a", "a-b"))
    assert found.deleted == tuple(sorted(OWN))
    assert found.left == dict.fromkeys(sorted(other), "of application 'a-b', by its name")
    # Also if nothing is left of the other's group.
    found = plan(own_topics(), topics=USERS | OWN | other, groups=())
    assert found.deleted == tuple(sorted(OWN))
    assert found.left == dict.fromkeys(sorted(other), "not of this topology")


def test_a_topic_of_the_program_is_deleted_even_if_a_group_has_a_name_that_fits() -> None:
    assert plan(own_topics(), groups=("a", "a-counts")).deleted == tuple(sorted(OWN))


def test_by_an_id_alone_topics_are_found_by_their_names_and_somebody_must_look_at_them() -> None:
    topics = (
        USERS | OWN | {"a-x": 1, "ab-counts-changelog": 1, "a-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic": 1}
    )
    found = plan(None, topics=topics)
    assert found.deleted == ("a-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic", *sorted(OWN))
    assert found.offsets == ()
    with pytest.raises(ConfigError, match=r"--internal-topics a-KTABLE.*,a-counts-changelog,a-counts-repartition$"):
        found.refuse_unasked()
    named = plan(None, topics=topics, internal_topics=tuple(OWN))
    assert named.deleted == tuple(sorted(OWN))
    named.refuse_unasked()


def test_by_an_id_alone_what_may_be_anothers_is_left_unless_it_is_named() -> None:
    topics = {"a-b-counts-changelog": 1, "a-c-changelog": 1, "a-backfill-changelog": 1}
    groups = ("a", "a-b", "a-backfill")
    found = plan(None, topics=topics, groups=groups)
    assert found.deleted == ("a-backfill-changelog", "a-c-changelog")
    assert found.left == {"a-b-counts-changelog": "of application 'a-b', by its name"}
    named = plan(None, topics=topics, groups=groups, internal_topics=("a-b-counts-changelog",))
    assert named.deleted == ("a-b-counts-changelog",)
    assert named.left == dict.fromkeys(("a-backfill-changelog", "a-c-changelog"), "not named by --internal-topics")


@pytest.mark.parametrize("own", [own_topics(), None])
def test_only_internal_topics_can_be_named_as_such(own: OwnTopics | None) -> None:
    with pytest.raises(
        ConfigError, match=r"--internal-topics out: not an internal topic .*: a-counts-changelog, a-counts"
    ):
        plan(own, internal_topics=("out",))


def test_an_input_topic_with_the_name_of_an_internal_one_is_not_deleted() -> None:
    found = plan(None, topics={"a-in-changelog": 1}, input_topics=("a-in-changelog",))
    assert (moved(found), found.deleted) == ({"a-in-changelog-0": 10}, ())


# ---- where offsets go ----


@pytest.mark.parametrize(
    ("target", "offsets", "note"),
    [
        (ToEarliest(), [10, 10], ""),
        (ToLatest(), [100, 100], ""),
        (ToOffset(50), [50, 50], ""),
        (ToOffset(3), [10, 10], "offset 3 does not exist: the nearest one is used"),
        (ToOffset(1000), [100, 100], "offset 1000 does not exist: the nearest one is used"),
        (ToTime(70), [70, 70], ""),
        (ToTime(7000), [100, 100], ""),
        (ShiftBy(-5), [35, 45], ""),
        (ShiftBy(5), [45, 55], ""),
        (FromFile("f", {LINES[0]: 20, LINES[1]: 30}), [20, 30], ""),
    ],
)
def test_every_target_of_kafkas_tool_and_what_is_not_there_becomes_the_nearest(
    target: Target, offsets: list[int], note: str
) -> None:
    found = reset_target.changes(target, reversed(LINES), {LINES[0]: 40, LINES[1]: 50}, Log())
    assert [each.partition for each in found] == LINES
    assert [each.after for each in found] == offsets
    assert {each.note for each in found} == {note}


def test_a_partition_without_a_committed_offset_cannot_be_shifted() -> None:
    with pytest.raises(ConfigError, match="partition lines-1 has no committed offset"):
        reset_target.changes(ShiftBy(-5), LINES, {LINES[0]: 40}, Log())


def test_a_file_has_every_partition_and_no_other() -> None:
    with pytest.raises(ConfigError, match="has no offset for partition 1 of topic 'lines'"):
        reset_target.changes(FromFile("f", {LINES[0]: 20}), LINES, {}, Log())
    given = {LINES[0]: 20, LINES[1]: 20, TopicPartition("line", 0): 1}
    with pytest.raises(ConfigError, match="names partition 0 of topic 'line', which is no partition of an input topic"):
        reset_target.changes(FromFile("f", given), LINES, {}, Log())


def test_a_file_is_read_as_kafkas_tools_write_it(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('lines,0,20\n"lines",1,30\n\n')
    assert reset_target.from_csv(file).given == {LINES[0]: 20, LINES[1]: 30}
    for text, says in (("lines,0\n", "line 1: 'lines,0' is not"), ("lines,0,1\nlines,x,1\n", "line 2"), ("", "empty")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            reset_target.from_csv(file)
    with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
        reset_target.from_csv(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:01Z", 1000),
    ],
)
def test_a_time_is_utc_unless_it_names_its_zone(text: str, ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        found = reset_target.time_of(text)
    time.tzset()
    assert found == ms


@pytest.mark.parametrize(
    ("target", "title"),
    [
        (ToTime(1500), "Offsets of group a, from 1970-01-01T00:00:01.500Z (here 1970-01-01T09:00:01+09:00) on"),
        (ToEarliest(), "Offsets of group a"),
    ],
)
def test_the_list_shows_a_time_with_its_zone(target: Target, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ResetPlan("a", (reset_target.OffsetChange(LINES[0], None, 10),), (), {})
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        shown = reset._offsets(plan, target)
    time.tzset()
    assert str(shown[1]) == title


@pytest.mark.parametrize("text", ["yesterday", "1970-01-01", "12:30"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--to-datetime '{text}' is no time such as"):
        reset_target.time_of(text)


@pytest.mark.parametrize(
    ("text", "ms"), [("PT1S", 1000), ("P1D", 86_400_000), ("P1DT2H30M", 95_400_000), ("PT0.5S", 500)]
)
def test_durations_are_iso_8601(text: str, ms: int) -> None:
    assert reset_target.duration_of(text) == ms


@pytest.mark.parametrize("text", ["1d", "60", "P", "PT", "-PT1S", "PT1X"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--by-duration '{text}' is no duration such as"):
        reset_target.duration_of(text)


def choose(**given: Any) -> Target:
    none = dict.fromkeys(("to_offset", "to_datetime", "by_duration", "shift_by", "from_file"))
    return reset_target.chosen(**{"to_earliest": False, "to_latest": False, **none, "now_ms": NOW_MS, **given})


def test_one_target_at_most_and_the_earliest_offset_without_one(tmp_path: Path) -> None:
    assert choose() == choose(to_earliest=True) == ToEarliest()
    assert choose(to_latest=True) == ToLatest()
    assert choose(to_offset=0) == ToOffset(0)
    assert choose(shift_by=-3) == ShiftBy(-3)
    assert choose(by_duration="PT1S") == ToTime(NOW_MS - 1000)
    assert choose(to_datetime="1970-01-01T00:00:01") == ToTime(1000)
    with pytest.raises(ConfigError, match="--to-latest and --to-offset: give one of them"):
        choose(to_latest=True, to_offset=0)
