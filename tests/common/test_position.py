"""Positions: values of topic, partition and offset, also as JSON."""

from __future__ import annotations

import pickle

import pytest

from penstock.common.ids import TopicPartition
from penstock.common.position import NOWHERE, Position, PositionBound

AB = Position.from_map({"a": {0: 5, 1: 7}, "b": {0: 1}})


def test_a_position_is_a_value() -> None:
    same = Position.of([(TopicPartition("b", 0), 1), (TopicPartition("a", 1), 7), (TopicPartition("a", 0), 5)])
    assert same == AB
    assert hash(same) == hash(AB)
    assert same != AB.with_component("b", 0, 2)
    assert pickle.loads(pickle.dumps(AB)) == AB
    assert sorted(AB) == [("a", 0, 5), ("a", 1, 7), ("b", 0, 1)]
    assert AB.get_topics() == {"a", "b"}
    assert AB.get_partition_positions("a") == {0: 5, 1: 7}
    assert AB.get_partition_positions("c") == {}
    assert repr(AB) == "Position({'a': {0: 5, 1: 7}, 'b': {0: 1}})"


def test_setting_a_component_returns_another_position() -> None:
    assert AB.with_component("a", 0, 3).get_partition_positions("a") == {0: 3, 1: 7}
    assert AB.get_partition_positions("a") == {0: 5, 1: 7}
    assert NOWHERE.with_component("a", 0, 3) == Position.from_map({"a": {0: 3}})
    assert Position.empty_position() == NOWHERE
    assert not NOWHERE


def test_two_together_have_of_each_partition_the_larger_offset() -> None:
    merged = AB.merge(Position.from_map({"a": {0: 9, 1: 2, 3: 0}, "c": {0: 0}}))
    assert merged == Position.from_map({"a": {0: 9, 1: 7, 3: 0}, "b": {0: 1}, "c": {0: 0}})
    assert merged.reaches(AB)
    assert not AB.reaches(merged)
    assert AB.reaches(NOWHERE)
    assert not NOWHERE.reaches(AB)


def test_a_bound_of_nothing_is_none() -> None:
    assert PositionBound.unbounded().is_unbounded
    assert PositionBound.at(NOWHERE).is_unbounded
    assert not PositionBound.at(AB).is_unbounded


def test_a_position_is_read_from_the_json_of_an_answer() -> None:
    assert Position.from_json({"a": {"0": 5, "1": 7}, "b": {"0": 1}}) == AB


@pytest.mark.parametrize(
    "wrong",
    [
        7, None, [], {"a": 7}, {"a": None}, {"a": [1]}, {"": {"0": 1}}, {"a": {"-1": 1}}, {"a": {"x": 1}},
        {"a": {"2147483648": 1}}, {"a": {"9" * 5000: 1}}, {"a": {"٣": 1}}, {"a": {"0": -1}}, {"a": {"0": 1 << 63}},
        {"a": {"0": True}}, {"a": {"0": 1.0}}, {"a": {"0": "1"}}, {"a": {0: 1}},
    ],
)  # fmt: skip
def test_any_other_object_is_no_position(wrong: object) -> None:
    reasons = "a position is|offsets must be keyed by|is not a partition|is not an offset|has no name"
    with pytest.raises(ValueError, match=reasons):
        Position.from_json(wrong)
