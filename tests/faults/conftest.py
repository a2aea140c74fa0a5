"""A broker behind a proxy and a Ray for all rows of a session, and applications that end with their row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ray_cluster as ray_cluster
from tests.faults.rig import Counting, Kafka, kafka_behind_a_proxy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests here as rows: ``make faults`` runs them, ``make test`` only those that are marked as cheap."""
    for item in items:
        if item.nodeid.startswith("tests/faults/") and item.get_closest_marker("cheap") is None:
            item.add_marker(pytest.mark.faults)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker behind a proxy, shared by all rows that do not hurt it for good."""
    with kafka_behind_a_proxy(tmp_path_factory.mktemp("faults")) as it:
        yield it


@pytest.fixture
def counting(
    kafka: Kafka, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> Iterator[Callable[..., Counting]]:
    """Makes running applications, and ends those that are left at the end of the row."""
    from penstock.cluster.client.control import end_actors
    from penstock.cluster.ray_cluster.named_actors import find_coordinator

    made: list[str] = []

    def make(work: Callable[[str], str] | None = None, **entries: Any) -> Counting:
        made.append(topic_name("row"))
        it = Counting(kafka, made[-1], tmp_path / "state", work, **entries)
        it.start()
        return it

    yield make
    kafka.proxy.heal()
    for name in made:
        end_actors(name, find_coordinator(name))
