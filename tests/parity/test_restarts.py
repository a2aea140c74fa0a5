"""Each case again, with its task thrown away before some record and restored from its changelogs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.parity.restarts import KEPT, Kills, forgets, restarted
from tests.parity.test_parity import BY_HAND, CASES, FOUND, MORE

RESTARTED = [it for it in CASES + MORE + FOUND + BY_HAND if not forgets(it)]


@pytest.mark.parametrize("medium", ["memory", "rocksdb"])
@pytest.mark.parametrize("case", RESTARTED, ids=lambda it: it["name"])
def test_a_task_that_was_restored_goes_on_as_if_nothing_had_been(
    case: dict[str, Any], medium: str, tmp_path: Path
) -> None:
    number = Random(f"{case['name']} {medium}").randrange(1, max(2, len(case["input"])))

    played = restarted(case, number, tmp_path if medium == "rocksdb" else None)
    for field in KEPT:
        assert played[field] == case[field], f"{field}; restarted before record {number}"


@pytest.mark.parametrize("case", RESTARTED, ids=lambda it: it["name"])
def test_so_does_one_that_was_killed_again_and_again_while_files_were_restored(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{case['name']} files")
    number = random.randrange(max(1, len(case["input"]) // 2), max(2, len(case["input"])))

    played = restarted(case, number, tmp_path, Kills(random, monkeypatch))
    for field in KEPT:
        assert played[field] == case[field], f"{field}; restarted before record {number}"
