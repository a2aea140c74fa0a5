"""The order of Java's collections, on values whose order was taken from a JVM's documented algorithms."""

from __future__ import annotations

import heapq
import random
from typing import Any

import pytest

from penstock.common.java_collections import (
    JavaPriorityQueue,
    TreeSet,
    bytes_hash,
    hash_order,
    slots_for,
    string_hash,
)


def test_string_hashes_are_those_of_java() -> None:
    assert string_hash("") == 0
    assert string_hash("a") == 97
    # "hello".hashCode() is 99162322; HashMap mixes its upper half into the lower one.
    assert string_hash("hello") == 99162322 ^ 99162322 >> 16


def test_short_names_come_in_the_order_of_their_hashes() -> None:
    assert hash_order(["c", "b", "a"]) == ["a", "b", "c"]
    # 'p' is 112, the first slot of 16 again.
    assert hash_order(["a", "p"]) == ["p", "a"]


def test_the_table_doubles_beyond_three_quarters() -> None:
    names = [chr(97 + i) for i in range(13)] + ["q"]
    # 'q' is 113: slot 1 of 16, but slot 17 of 32.
    assert hash_order([*names[:5], "q"])[:2] == ["a", "q"]
    assert hash_order(names)[-1] == "q"


def test_keys_that_share_a_slot_keep_the_order_in_which_they_were_added() -> None:
    assert hash_order(["q", "a"]) == ["q", "a"]
    assert hash_order(["a", "q"]) == ["a", "q"]


@pytest.mark.parametrize(
    ("data", "hashed"),
    [(b"", 1), (b"a", 31 + 97), (b"ab", (31 + 97) * 31 + 98), (b"\xff", 30), (b"\x80\x00", (31 - 128) * 31)],
)
def test_bytes_are_hashed_as_signed_ones_beginning_with_1(data: bytes, hashed: int) -> None:
    unsigned = hashed & 0xFFFFFFFF
    assert bytes_hash(data) == unsigned ^ unsigned >> 16


def test_a_long_key_is_hashed_like_a_short_one() -> None:
    hashed = 1
    for byte in bytes(range(128)) * 9:
        hashed = hashed * 31 + byte & 0xFFFFFFFF
    assert bytes_hash(bytes(range(128)) * 9) == hashed ^ hashed >> 16


def test_a_table_grows_and_does_not_shrink() -> None:
    assert [slots_for(count) for count in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]
    assert slots_for(3, 64) == 64


def test_a_tree_set_is_sorted_while_the_order_does_not_change() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    elements = random.Random(seed).sample(range(1000), 300)
    tree: TreeSet[int] = TreeSet(lambda one, other: one < other)
    for element in elements:
        tree.add(element)
    assert list(tree) == sorted(elements)


def test_a_tree_set_does_not_move_what_it_holds_when_the_order_changes() -> None:
    rank = {"a": 1, "b": 2, "c": 3}
    tree: TreeSet[str] = TreeSet(lambda one, other: rank[one] < rank[other])
    tree.add("b")
    tree.add("c")
    rank["c"] = 0
    tree.add("a")
    assert list(tree) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(5))
def test_a_priority_queue_is_in_order_whatever_is_added_and_taken(seed: int) -> None:
    print("seed", seed)
    dice = random.Random(seed)
    mine: JavaPriorityQueue[int] = JavaPriorityQueue(lambda number: number)
    model: list[Any] = []
    for _ in range(500):
        if model and dice.random() < 0.45:
            assert mine.peek() == model[0]
            assert mine.poll() == heapq.heappop(model)
        else:
            number = dice.randrange(20)
            mine.add(number)
            heapq.heappush(model, number)
        assert len(mine) == len(model)
