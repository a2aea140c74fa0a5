"""The program of docs/CHAOS.md runs, and its check finds what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import penstock as ps
from penstock.testing.chaos import AtRest, Guarantee, Program
from penstock.testing.chaos.__main__ import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "CHAOS.md").read_text()


def program() -> Program:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(code, "shop", "exec", dont_inherit=True), names)
    found = names["orders"]
    assert isinstance(found, Program)
    return found


def at_rest(rows: Mapping[str, int], guarantee: Guarantee) -> AtRest:
    return cast(AtRest, SimpleNamespace(guarantee=guarantee, rows=lambda _: rows))


def test_the_program_of_the_page_is_right_without_faults_and_its_check_reports_what_is_not() -> None:
    orders = program()
    orders.rounds = 3
    with ps.TopologyTestDriver(orders.topology(), dict(orders.config)) as driver:
        pipe = driver.create_input_topic("orders", ps.Serdes.bytes(), ps.Serdes.bytes())
        for record in [each for number in range(orders.rounds) for each in orders.round(number)]:
            assert record.topic in orders.topics
            pipe.pipe_input(record.key, record.value, record.timestamp)
        store, keys = orders.counting_up or ("", ())
        rows = {key: row.value for key, row in driver.get_timestamped_key_value_store(store).all()}
    assert set(keys) == set(rows)
    low, high = rows | {keys[0]: 2}, rows | {keys[0]: 4}
    for guarantee in Guarantee:
        assert list(orders.check(at_rest(rows, guarantee))) == []
        assert list(orders.check(at_rest(low, guarantee))) == ["customer-0 owes 2 instead of 3"]
    assert list(orders.check(at_rest(high, Guarantee.EXACTLY))) == ["customer-0 owes 4 instead of 3"]
    assert list(orders.check(at_rest(high, Guarantee.AT_LEAST))) == []


def test_the_page_names_every_fault_and_no_other() -> None:
    rows = re.findall(r"^\| (`[a-z`, -]+`) \|", PAGE[PAGE.index("## Faults") :], re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`([a-z-]+)`", row)) == sorted(NAMES)
