"""``penstock plan``: two programs in the current folder, with and without a real broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.loading import load_application
from penstock.cli.main import app
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import SENT_NOW
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.topology.physical.topic_plan import plan_topics

PROGRAM = """
import penstock as ps
STRING = ps.Serdes.string()
builder, text = ps.StreamsBuilder(), ps.Consumed.with_(STRING, STRING)
{first}
words = builder.stream({lines!r}, text).group_by(lambda key, word: word, ps.Grouped.with_(STRING, STRING))
words.count(ps.Materialized.as_({store!r}))
app = ps.KafkaStreams(builder.build(), {{"application.id": {name!r}, "bootstrap.servers": "127.0.0.1:1"}})
"""
TABLE = 'builder.table({users!r}, text, ps.Materialized.as_("users"))'
PATTERN = 'builder.stream(__import__("re").compile("orders-[a-z]+"), text).to("orders")'


class Deploy:
    """The programs ``old_version``, ``new_version`` (moved by a table in front of it), ``renamed_version`` and
    ``wide_version``, which reads topics by a pattern, too."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.lines, self.users = name, f"{name}.lines", f"{name}.users"
        table = TABLE.format(users=self.users)
        programs = {
            "old": ("", "counts"),
            "new": (table, "counts"),
            "renamed": ("", "words"),
            "wide": (PATTERN, "counts"),
        }
        for file, (first, store) in programs.items():
            text = PROGRAM.format(first=first, lines=self.lines, store=store, name=name)
            (folder / f"{file}_version.py").write_text(text)

    def plan(self, old: str, new: str, *options: str) -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["plan", old, new, *options])


@pytest.fixture
def deploy(topic_name: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deploy:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("old", "new", "renamed", "wide"):
        monkeypatch.delitem(sys.modules, f"{name}_version", raising=False)
    return Deploy(topic_name("app"), tmp_path)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_deploy_that_loses_nothing_is_shown_without_asking_anybody(deploy: Deploy) -> None:
    result = deploy.plan("old_version:app", "new_version:app")
    assert result.exit_code == 0, result.output
    assert ["moved", "counts", "1_*", "2_*"] in [row[:4] for row in rows(result.output)]
    assert ["kept", f"{deploy.name}-counts-changelog", "changelog"] in rows(result.output)
    assert result.output.splitlines()[-2:] == [
        "Tasks and records are not counted; to count them in the program's own Kafka, add -b 127.0.0.1:1",
        "Nothing is orphaned, and nothing must be rebuilt",
    ]


def test_a_pattern_is_shown_as_it_was_written(deploy: Deploy) -> None:
    result = deploy.plan("old_version:app", "wide_version:app")
    assert ["new", "/orders-[a-z]+/", "input"] in [row[:3] for row in rows(result.output)]


def test_the_exit_code_reports_a_loss(deploy: Deploy) -> None:
    result = deploy.plan("old_version:app", "renamed_version:app")
    assert result.exit_code == 3, result.output
    assert "Needs attention: 3 orphaned" in result.output  # the store, its changelog and its repartition topic


def test_the_old_version_may_be_a_description_that_was_kept(deploy: Deploy, tmp_path: Path) -> None:
    described = CliRunner().invoke(app, ["describe", "old_version:app", "--json"])
    (tmp_path / "deployed.json").write_text(described.stdout)
    by_file = deploy.plan("deployed.json", "new_version:app")
    assert by_file.output == deploy.plan("old_version:app", "new_version:app").output


def test_with_a_broker_the_plan_counts_tasks_and_records_and_reports_a_refused_start(
    deploy: Deploy, broker: str
) -> None:
    clients = ConfluentClients(broker, deploy.name)
    admin = clients.admin()
    admin.create_topics([NewTopic(deploy.lines, 2)])
    old = load_application("old_version:app")
    ensure_topics(admin, partial(plan_topics, old.topology, old.config))
    changelog, repartition = f"{deploy.name}-counts-changelog", f"{deploy.name}-counts-repartition"
    producer = clients.producer()
    for topic in [changelog] * 30 + [repartition] * 5:
        producer.send(topic, b"k", b"\0" * 8, SENT_NOW, partition=1)
    assert producer.flush(60)
    producer.close()
    admin.commit(deploy.name, {TopicPartition(repartition, 1): CommittedOffset(3)})

    refused = deploy.plan("old_version:app", "new_version:app", "-b", broker)
    assert refused.exit_code == 3
    assert f"would not start: application {deploy.name!r}: the topic does not exist: {deploy.users!r}" in refused.output

    admin.create_topics([NewTopic(deploy.users, 3)])
    result = deploy.plan("old_version:app", "new_version:app", "-b", broker, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert [(each["was"], each["now"], each["tasks"]) for each in found["tasks"]] == [
        (None, 0, 3),
        (0, 1, 2),
        (1, 2, 2),
    ]
    [counts] = [each for each in found["stores"] if each["name"] == "counts"]
    assert (counts["fate"], counts["records"]) == ("moved", 30)
    assert found["restored"] == {"records": 30, "seconds": 0.0}
    assert (found["loses"], found["refused"]) == (False, None)

    renamed = deploy.plan("old_version:app", "renamed_version:app", "-b", broker)
    assert renamed.exit_code == 3
    assert "2 unprocessed records will be lost" in renamed.output

    admin.delete_topics([deploy.lines])
    admin.create_topics([NewTopic(deploy.lines, 4)])
    grown = deploy.plan("old_version:app", "old_version:app", "-b", broker)
    assert grown.exit_code == 3
    assert "it has 2 partitions and needs 4: the application would not start" in grown.output
    assert "Needs attention: 2 refused" in grown.output
