"""A changelog that is deleted under an application, and a start without it, on a real broker and a real Ray."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.errors import InternalTopicError
from penstock.kafka.group_tools import GroupTools
from tests.cluster.conftest import WordCount
from tests.waiting import PATIENCE_S, eventually


@pytest.mark.long
def test_a_deleted_changelog_shows_and_a_start_without_it_refuses_and_keeps_the_local_state(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    changelog = f"{it.application_id}-counts-changelog"
    tools = GroupTools(it.broker)
    it.send(["a b a", "c a"])
    app = it.app()
    app.start()
    app.wait_until_running(PATIENCE_S)
    eventually(lambda: it.complete() and it.committed() == 2, "all is counted and committed")
    tools.delete_topics([changelog])
    eventually(lambda: changelog in (app.status().missing_topic or ""), "the loss shows")
    end_actors(it.application_id, find_coordinator(it.application_id))

    def kept() -> list[str]:
        return sorted(str(path) for path in it.state_dir.rglob("*") if path.suffix in (".log", ".sst"))

    before = kept()
    assert before
    with pytest.raises(InternalTopicError, match=rf"internal topic '{changelog}' is gone.*'penstock reset'"):
        it.app().start()
    assert changelog not in tools.topics()
    assert kept() == before
