"""Marks made of confluent-kafka's reports. Without a broker: none can be made to acknowledge a batch twice."""

from __future__ import annotations

from unittest.mock import Mock

from confluent_kafka import Message

from penstock.common.ids import TopicPartition
from penstock.kafka.producer import _Mark


def report(offset: int) -> Message:
    message = Mock(spec=Message)
    message.topic.return_value, message.partition.return_value, message.offset.return_value = "log", 0, offset
    return message


def test_an_end_does_not_sink_when_the_broker_had_a_batch_already_which_librdkafka_numbers_from_minus_one() -> None:
    failed = Mock()
    mark = _Mark(None, failed)
    for offset in (6, 7, -1, 0, 1):
        mark.logged(None, report(offset))
    assert mark.ends() == {TopicPartition("log", 0): 8}
    failed.assert_not_called()


def test_a_partition_whose_offsets_nobody_learns_has_no_end() -> None:
    mark = _Mark(None, Mock())
    mark.logged(None, report(-1))
    assert mark.ends() == {}
