"""Each case again, with its task thrown away before some record and restored from its changelogs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.parity.restarts import KEPT, Kills, forgets, restarted
from tests.parity.test_parity import BY_HAND, CASES, FOUND, MORE
from tests.tiers import sampled

RESTARTED = [it for it in CASES + MORE + FOUND + BY_HAND if not forgets(it)]


@pytest.mark.parametrize("case", RESTARTED, ids=lambda it: it["name"])
def test_a_task_that_was_restored_in_memory_continues_as_if_nothing_had_happened(case: dict[str, Any]) -> None:
    number = Random(f"{case['name']} memory").randrange(1, max(2, len(case["input"])))

    played = restarted(case, number, None)
    for field in KEPT:
        assert played[field] == case[field], f"{field}; restarted before record {number}"


@pytest.mark.parametrize("case", sampled(RESTARTED, every=10), ids=lambda it: it["name"])
def test_so_does_a_task_that_was_restored_on_disk(case: dict[str, Any], tmp_path: Path) -> None:
    number = Random(f"{case['name']} rocksdb").randrange(1, max(2, len(case["input"])))

    played = restarted(case, number, tmp_path)
    for field in KEPT:
        assert played[field] == case[field], f"{field}; restarted before record {number}"


@pytest.mark.parametrize("case", sampled(RESTARTED, every=10), ids=lambda it: it["name"])
def test_so_does_one_that_was_killed_again_and_again_while_files_were_restored(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{case['name']} files")
    number = random.randrange(max(1, len(case["input"]) // 2), max(2, len(case["input"])))

    played = restarted(case, number, tmp_path, Kills(random, monkeypatch))
    for field in KEPT:
        assert played[field] == case[field], f"{field}; restarted before record {number}"
