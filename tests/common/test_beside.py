"""A thread beside a block."""

from __future__ import annotations

import threading

import pytest

from penstock.common.beside import beside
from tests.waiting import PATIENCE_S


def test_the_block_waits_for_the_thread_also_if_it_raises() -> None:
    ended = threading.Event()

    def work(over: threading.Event) -> None:
        if over.wait(PATIENCE_S):
            ended.set()

    with beside(work, "working"):
        assert any(each.name == "working" for each in threading.enumerate())
    assert ended.is_set()
    ended.clear()
    with pytest.raises(ValueError, match="in the block"), beside(work, "working"):
        raise ValueError("in the block")
    assert ended.is_set()
