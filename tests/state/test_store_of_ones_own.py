"""The store of docs/STORES.md, an example of those that users write, in every use that penstock's own stores have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.common.config import StreamsConfig
from penstock.common.errors import UnknownQueryError, UnknownStateStoreError
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import KeyQuery, QueryRow, RangeQuery
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.physical.topic_plan import plan_topics
from tests.state.store_machine import NAME, Logged, StoreMachine, can_change
from tests.tasks.bench import Bench
from tests.tiers import examples

PAGE = Path(__file__).parents[2] / "docs" / "STORES.md"
KEYS = ("", "a", "b")


@cache
def page() -> dict[str, Any]:
    """Returns what the program of the page defines, after it has run."""
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    defined: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, "page", "exec", dont_inherit=True), defined)
    return defined


class LastValuesMachine(StoreMachine):
    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        built: AnyStoreBuilder = page()["LastValuesBuilder"](NAME, Serdes.string(), Serdes.json(), persistent, most=2)
        return built

    def model_of(self, changelog: Sequence[Logged]) -> dict[str, list[str]]:
        return {record.key.decode(): orjson.loads(record.value or b"") for record in changelog}

    @precondition(can_change)
    @rule(key=st.sampled_from(KEYS), value=st.text(max_size=2))
    def append(self, key: str, value: str) -> None:
        self.view.append(key, value)
        self.latest[key] = [*self.latest.get(key, []), value][-2:]

    def assert_shows(self, model: dict[str, list[str]], committed: bool) -> None:
        for key in KEYS:
            expected = [QueryRow(key.encode(), model[key], None)] if key in model else []
            assert list(self.store.answer(KeyQuery(key.encode()), None, 1, committed)) == expected
            if committed:
                value, _ = self.store.changelog_record(key.encode())
                assert (None if value is None else orjson.loads(value)) == model.get(key)
            else:
                assert self.view.last(key) == model.get(key, [])


TestLastValues = LastValuesMachine.TestCase
TestLastValues.settings = settings(max_examples=examples(15), stateful_step_count=25)


@pytest.mark.parametrize("directory", [True, False], ids=["RocksDB", "memory"])
def test_a_task_restores_it_from_its_changelog(directory: bool, tmp_path: Path) -> None:
    builder = page()["builder"]
    first = Bench(builder)
    first.feed("visits", *(("ada", page, 1) for page in ("/a", "/b", "/c", "/d")))
    (record,) = [each for each in first.commit() if each.topic == "app-last-values-changelog"]
    config = StreamsConfig.of({"application.id": "app"})
    whole = [builder.build(config).as_one]
    stores = open_task_stores(tmp_path if directory else None, whole[0].stores)
    second = Bench(builder, stores=stores, start=False)
    assert second.program.changelogs["last-values"].topic == "app-last-values-changelog"
    second.state_manager.restore("last-values", [record.key], [record.value], [record.timestamp], 1)
    second.task.init(0)
    assert second.state_manager.store("last-values").view().last("ada") == ["/b", "/c", "/d"]
    assert second.look_up("last-values", b"ada", committed=True) == (b"ada", ["/b", "/c", "/d"], None)
    with pytest.raises(UnknownQueryError, match="'last-values' does not answer RangeQuery; it answers: KeyQuery"):
        second.state_manager.store("last-values").answer(RangeQuery(), None, 1, False)
    second.task.close()


def test_its_changelog_is_created_with_the_settings_that_it_gives() -> None:
    config = StreamsConfig.of({"application.id": "app"})
    plan = plan_topics(page()["builder"].build(config), config, {"visits": 3, "pages": 1})
    (changelog,) = plan.internal
    assert (changelog.name, changelog.partitions) == ("app-last-values-changelog", 3)
    assert changelog.config["cleanup.policy"] == "compact"


def test_the_test_driver_returns_it_and_refuses_it_as_a_key_value_store() -> None:
    with TopologyTestDriver(page()["builder"].build()) as driver:
        driver.create_input_topic("visits", Serdes.string(), Serdes.string()).pipe_input("ada", "/a")
        assert driver.get_state_store("last-values").last("ada") == ["/a"]
        with pytest.raises(UnknownStateStoreError, match="'last-values' is no key-value store"):
            driver.get_key_value_store("last-values")
