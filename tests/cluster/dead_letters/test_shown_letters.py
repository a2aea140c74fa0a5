"""Dead letters as the page shows and replays them, on a broker in memory."""

from __future__ import annotations

import pytest

from penstock.cluster.dead_letters import requested_replay as module
from penstock.cluster.dead_letters.letters import Filter, Letter
from penstock.cluster.dead_letters.requested_replay import replayed
from penstock.cluster.dead_letters.shown_letters import origins_of, read_letters, shown_letters
from penstock.cluster.letter_side import LetterReplay, ReplayRequest, ShownLetters
from penstock.cluster.record_side import Form
from penstock.cluster.topic_reading.sources import PickledSerdes
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.dead_letters import EXCEPTION, OFFSET, PARTITION, REPLAYED, TOPIC
from penstock.common.errors import ConfigError
from penstock.common.serdes import Serdes
from tests.cluster.dead_letters.making import DLQ, Rig, error_headers

TEXT, NUMBER = Serdes.string(), Serdes.long()
ORDERS = {"orders": PickledSerdes.of(TopicSerdes(TEXT, NUMBER, "read by orders"))}


def newest(rig: Rig, limit: int = 20, place: tuple[int, int] | None = None) -> ShownLetters:
    return shown_letters(DLQ, read_letters(rig.clients, DLQ, limit, place), ORDERS)


def test_letters_are_shown_raw_and_decoded_with_their_error_and_their_own_headers() -> None:
    rig = Rig(orders=1)
    rig.put([("own", b"1"), *error_headers()], value=NUMBER.serialize(7), timestamp=5)
    rig.put(error_headers(topic="other"), value=b"x", timestamp=7, partition=1)
    rig.put([], key=None, value=None, timestamp=6)
    other, foreign, letter = newest(rig).letters
    assert (letter.exception, letter.message) == ("builtins.ValueError", "no number: 'x1'")
    assert (letter.origin.topic, letter.origin.partition, letter.origin.offset) == ("orders", 0, 7)
    assert [(name, data and data.value) for name, data in letter.record.headers] == [("own", "1")]
    assert letter.value is not None
    assert letter.record.value is not None
    assert (letter.value.form, letter.value.value) == (Form.DECODED, 7)
    assert (letter.record.value.form, letter.record.value.value) == (Form.TEXT, "\0" * 7 + "\7")
    assert other.value is not None
    assert other.value.problem == "the application does not read the topic that the record came from"
    assert (foreign.exception, foreign.origin.topic, foreign.key, foreign.record.value) == (None, None, None, None)
    assert origins_of(read_letters(rig.clients, DLQ, 20).letters) == ("other", "orders")


def test_hostile_letters_are_bounded_and_hide_no_other() -> None:
    rig = Rig(orders=1)
    huge = b"9" * 4000
    headers = [*error_headers(message="<script>" + "m" * 500_000, trace="t\0\u202e" * 200_000)]
    headers = [(name, huge if name in (PARTITION, OFFSET) else data) for name, data in headers]
    rig.put(
        [*headers, (REPLAYED, b'{"topic":"t","partition":0,"offset":0,"count":' + huge + b"}")], value=b"v" * 500_000
    )
    rig.put([(EXCEPTION, b"\xff\xfe"), (TOPIC, b"\xff")])
    broken, letter = newest(rig).letters
    assert (broken.exception, broken.origin.topic) == ("��", "�")
    assert (letter.origin.partition, letter.origin.offset, letter.replay_count) == (None, None, 0)
    assert letter.message is not None
    assert letter.stacktrace is not None
    assert letter.record.value is not None
    assert (len(letter.message), len(letter.stacktrace)) == (2049, 4097)
    assert (letter.record.value.size, letter.record.value.clipped) == (500_000, True)
    (whole,) = newest(rig, 1, (0, 0)).letters
    assert whole.stacktrace is not None
    assert len(whole.stacktrace) == (64 << 10) + 1


def test_one_letter_is_found_by_its_place_and_others_are_not() -> None:
    rig = Rig(orders=1)
    for number in range(3):
        rig.put(value=f"v{number}".encode())
    (letter,) = newest(rig, 1, (0, 1)).letters
    assert letter.record.value is not None
    assert letter.record.value.value == "v1"
    for place in ((0, 3), (1, 0), (9, 0)):
        assert newest(rig, 1, place).letters == ()


def test_a_replay_writes_each_record_once_and_the_letters_name_it() -> None:
    rig = Rig(orders=1)
    rig.put(error_headers(offset=1), value=b"a")
    rig.put(error_headers(offset=2), value=b"b")
    rig.put(error_headers(topic="gone", offset=3), value=b"c")
    plan = replayed(rig.clients, DLQ, ReplayRequest(places=("0@0",), dry_run=True))
    assert (plan.read, plan.selected, plan.to, plan.written) == (3, 1, {"orders": 1}, 0)
    assert rig.values("orders") == []
    assert f"{DLQ}-replays" not in rig.broker.topics(), "a plan alone creates nothing"
    assert replayed(rig.clients, DLQ, ReplayRequest(places=("0@0",))).written == 1
    again = replayed(rig.clients, DLQ, ReplayRequest(exceptions=("ValueError",)))
    assert (again.to, again.written, rig.values("orders")) == ({"orders": 1}, 1, [b"a", b"b"])
    assert sum(again.left.values()) == 2
    assert again.lines[0] == "3 letters of 3 selected"
    replays = [[each.topic for each in letter.replays] for letter in newest(rig).letters]
    assert replays == [[], ["orders"], ["orders"]]
    (letter,) = newest(rig, 1, (0, 0)).letters
    assert all(isinstance(each, LetterReplay) and each.at_ms > 0 for each in letter.replays)


def test_a_topic_with_very_many_letters_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(orders=1)
    monkeypatch.setattr(module, "REPLAY_MOST", 2)
    for _ in range(3):
        rig.put()
    with pytest.raises(ConfigError, match=f"run 'penstock dlq replay {DLQ}'"):
        replayed(rig.clients, DLQ, ReplayRequest(topics=("orders",)))
    assert rig.values("orders") == []


def test_a_letter_is_looked_up_among_thousands_of_places_at_once() -> None:
    class Counted(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

    wanted = Filter(places=tuple(Counted(f"0@{offset}") for offset in range(0, 20_000, 2)))
    assert [wanted.matches(Letter(0, offset, b"k", b"v", 1)) for offset in (7, 8)] == [False, True]
    assert Counted.compared < 100
