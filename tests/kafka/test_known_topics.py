"""An internal topic that the application has had and that is gone, against one that it has never had."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from penstock.common.errors import InternalTopicError, KafkaRefusedError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.known_topics import forget_topics, note_topics, refuse_lost_topics, topics_group
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients

LINES = [TopicPartition("lines", number) for number in range(3)]
INTERNAL = ["app-words-repartition", "app-counts-changelog"]


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    for topic in ("lines", *INTERNAL):
        made.create_topic(NewTopic(topic, 3))
    return made


def start(broker: FakeBroker, *internal: str) -> None:
    """Checks, creates and notes the internal topics, as a start of the application does."""
    admin = FakeClients("app", broker).admin()
    refuse_lost_topics(admin, "app", internal, admin.topics())
    for topic in internal:
        if topic not in admin.topics():
            broker.create_topic(NewTopic(topic, 3))
    note_topics(admin, "app", internal, LINES)


def commit(broker: FakeBroker, offset: int) -> None:
    FakeClients("app", broker).admin().commit("app", {LINES[0]: CommittedOffset(offset)})


@pytest.mark.parametrize(
    ("lost", "held"),
    [("app-counts-changelog", "the state of its stores"), ("app-words-repartition", "were not processed yet")],
)
def test_a_topic_that_the_application_had_is_missed_once_offsets_are_committed(
    broker: FakeBroker, lost: str, held: str
) -> None:
    start(broker, *INTERNAL)
    commit(broker, 7)
    broker.delete_topic(lost)
    with pytest.raises(InternalTopicError) as refusal:
        start(broker, *INTERNAL)
    message = str(refusal.value)
    assert message.startswith(f"application 'app': internal topic '{lost}' is gone")
    for part in (held, "No local state was deleted", "backup", "'penstock reset'"):
        assert part in message
    assert lost not in FakeClients("app", broker).admin().topics(), "nothing was created"


def test_a_first_start_creates_its_topics_and_so_does_one_that_has_processed_nothing(broker: FakeBroker) -> None:
    for topic in INTERNAL:
        broker.delete_topic(topic)
    start(broker, *INTERNAL)
    broker.delete_topic(INTERNAL[0])
    commit(broker, 0)  # as Kafka's own reset tool does
    start(broker, *INTERNAL)


def test_a_store_that_the_program_has_got_since_is_created(broker: FakeBroker) -> None:
    start(broker, *INTERNAL)
    commit(broker, 7)
    start(broker, *INTERNAL, "app-totals-changelog")
    broker.delete_topic("app-totals-changelog")
    with pytest.raises(InternalTopicError, match="'app-totals-changelog' is gone"):
        start(broker, *INTERNAL, "app-totals-changelog")


def test_a_store_that_the_program_had_dropped_may_come_back_empty(broker: FakeBroker) -> None:
    start(broker, *INTERNAL)
    commit(broker, 7)
    start(broker, INTERNAL[0])
    broker.delete_topic(INTERNAL[1])
    start(broker, *INTERNAL)


def test_a_store_may_come_back_after_a_version_with_other_sources_or_without_stores(broker: FakeBroker) -> None:
    start(broker, INTERNAL[1])
    commit(broker, 7)
    admin = FakeClients("app", broker).admin()
    note_topics(admin, "app", INTERNAL[:1], [TopicPartition("others", 0)])
    broker.delete_topic(INTERNAL[1])
    start(broker, *INTERNAL)
    note_topics(admin, "app", [], LINES)
    broker.delete_topic(INTERNAL[1])
    start(broker, *INTERNAL)


def test_an_application_that_never_had_an_internal_topic_makes_no_group(broker: FakeBroker) -> None:
    start(broker)
    assert not FakeClients("app", broker).admin().committed(topics_group("app"))


def test_after_a_reset_everything_is_created_again(broker: FakeBroker) -> None:
    start(broker, *INTERNAL)
    commit(broker, 7)
    forget_topics(FakeClients("app", broker).admin(), "app")
    broker.delete_topic(INTERNAL[1])
    start(broker, *INTERNAL)


def test_the_note_of_many_topics_is_spread_over_the_source_partitions(broker: FakeBroker) -> None:
    many = [f"app-store-{number}-changelog" for number in range(700)]
    start(broker, *many)
    commit(broker, 7)
    notes = FakeClients("app", broker).admin().committed(topics_group("app"))
    assert max(len(note.metadata) for note in notes.values()) < 4096
    broker.delete_topic(many[699])
    with pytest.raises(InternalTopicError, match=many[699]):
        start(broker, *many)


def test_the_note_outlives_a_source_topic_that_is_deleted(broker: FakeBroker) -> None:
    """A program that reads a pattern continues without a deleted topic. Kafka deletes its offsets, and the note beside
    them."""
    broker.create_topic(NewTopic("a-first", 1))
    admin = FakeClients("app", broker).admin()
    note_topics(admin, "app", INTERNAL, [TopicPartition("a-first", 0), *LINES])
    commit(broker, 7)
    broker.delete_topic("a-first")
    with broker.changed:
        del broker.group(topics_group("app")).offsets[TopicPartition("a-first", 0)]
    broker.delete_topic(INTERNAL[1])
    with pytest.raises(InternalTopicError, match=INTERNAL[1]):
        start(broker, *INTERNAL)


def test_an_application_that_reads_no_topic_at_present_keeps_its_note(broker: FakeBroker) -> None:
    start(broker, *INTERNAL)
    commit(broker, 7)
    note_topics(FakeClients("app", broker).admin(), "app", INTERNAL, [])
    broker.delete_topic(INTERNAL[1])
    with pytest.raises(InternalTopicError, match=INTERNAL[1]):
        start(broker, *INTERNAL)


def test_many_small_source_topics_hold_the_note_of_many_topics_together(broker: FakeBroker) -> None:
    many = [f"app-store-{number}-changelog" for number in range(700)]
    small = [TopicPartition(f"small-{number}", 0) for number in range(3)]
    for at in small:
        broker.create_topic(NewTopic(at.topic, 1))
    admin = FakeClients("app", broker).admin()
    note_topics(admin, "app", many, small)
    notes = admin.committed(topics_group("app"))
    assert len({name for note in notes.values() for name in note.metadata.split()}) == 700


def test_a_note_beside_very_many_topics_fits_into_one_batch_of_records() -> None:
    sent: list[Offsets] = []

    class Admin:
        def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
            return {}

        def commit(self, group: str, offsets: Offsets) -> None:
            sent.append(offsets)

    note_topics(Admin(), "app", map(str, range(300)), [TopicPartition(f"in-{number}", 0) for number in range(1000)])
    (offsets,) = sent
    assert 200_000 < sum(len(note.metadata) for note in offsets.values()) < 400_000


def test_an_application_that_may_not_use_the_group_of_the_note_starts_and_is_warned() -> None:
    class Refusing:
        def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
            raise KafkaRefusedError("Group authorization failed")

        def commit(self, group: str, offsets: Offsets) -> None:
            raise KafkaRefusedError("Group authorization failed")

    with capture_logs() as logs:
        refuse_lost_topics(Refusing(), "app", INTERNAL, [])
        note_topics(Refusing(), "app", INTERNAL, LINES)
    assert [entry["group"] for entry in logs] == ["app-internal-topics"] * 2
