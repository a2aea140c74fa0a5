"""The report on an application that drains."""

from __future__ import annotations

import threading
from datetime import datetime

from penstock.cli.draining import drain_line, reported_while_draining
from tests.waiting import PATIENCE_S


def test_a_line_names_the_condition_the_limit_and_the_way_out() -> None:
    line = drain_line("no broker answers at kafka:9092", datetime(2026, 11, 25, 19, 7, 9))
    assert line == (
        "Draining: waiting for its stream actors to commit and close their stores (no broker answers at kafka:9092), "
        "until 19:07:09 at the latest. Press Ctrl-C again to end it without a commit"
    )
    assert "stores, until" in drain_line(None, datetime(2026, 11, 25))


def test_the_message_is_repeated_until_the_block_ends() -> None:
    lines: list[str] = []
    twice = threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        if len(lines) >= 2:
            twice.set()

    with reported_while_draining(lambda: "a broker", tell, within_s=120.0, each_s=0.0):
        assert twice.wait(PATIENCE_S)
    reported = len(lines)
    assert "(a broker)" in lines[0]
    assert len(lines) == reported


def test_nothing_is_printed_about_a_drain_that_takes_no_time() -> None:
    lines: list[str] = []
    with reported_while_draining(lambda: None, lines.append, within_s=120.0, each_s=PATIENCE_S):
        pass
    assert lines == []
