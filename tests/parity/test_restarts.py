"""Each case once more, its task thrown away before some record and restored from its changelogs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.testing.topology_test_driver import TopologyTestDriver
from tests.parity.play import play
from tests.parity.restarts import RestartingDriver
from tests.parity.test_parity import BY_HAND, CASES, FOUND, MORE


def forgets(case: dict[str, Any]) -> bool:
    """Whether the case shows what no restart knows: when a punctuator is due next, and what a left or outer join of
    streams takes for the smallest timestamp that waits (its look at what waits may come earlier: docs/PARITY.md)."""
    return any(
        (step["op"] in ("process", "add_processor") and step["fn"].startswith("tick"))
        or (step["op"] == "stream_stream" and step["kind"] != "inner")
        for step in case["topology"]
    )


@pytest.mark.parametrize("medium", ["memory", "rocksdb"])
@pytest.mark.parametrize(
    "case", [it for it in CASES + MORE + FOUND + BY_HAND if not forgets(it)], ids=lambda it: it["name"]
)
def test_a_task_that_was_restored_goes_on_as_if_nothing_had_been(
    case: dict[str, Any], medium: str, tmp_path: Path
) -> None:
    number = Random(f"{case['name']} {medium}").randrange(1, max(2, len(case["input"])))

    def restart(driver: TopologyTestDriver, record: int) -> None:
        if record == number:
            assert isinstance(driver, RestartingDriver)
            driver.restart()

    state = tmp_path if medium == "rocksdb" else None
    played = play(case, partial(RestartingDriver, state=state), restart)
    for field in ("output", "internal", "stores"):
        assert played[field] == case[field], f"{field}; restarted before record {number}"
