"""``penstock reset`` of an application of which only the id is known, against a real broker; no Ray runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import penstock as ps
from penstock.cli import reset
from penstock.cli.main import app
from penstock.cluster.ray_cluster import connections
from penstock.common.errors import ConfigError, MissingTopicError, StateStoreLockedError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import SENT_NOW
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin


class Subject:
    """An application that has been stopped: a topic with ten records, the half of them read, and a changelog."""

    def __init__(self, broker: str, application_id: str, state_dir: Path) -> None:
        self.broker, self.application_id = broker, application_id
        clients = ConfluentClients(broker, application_id)
        self.admin: Admin = clients.admin()
        self.input, self.changelog = f"{application_id}.in", f"{application_id}-counts-changelog"
        self.partition = TopicPartition(self.input, 0)
        self.admin.create_topics([NewTopic(self.input, 1), NewTopic(self.changelog, 1)])
        producer = clients.producer()
        for _ in range(10):
            producer.send(self.input, None, b"x", SENT_NOW, partition=0)
        assert producer.flush(60)
        producer.close()
        self.admin.commit(application_id, {self.partition: CommittedOffset(5, "AQAAAAAAAAAB")})
        self.state = state_dir / application_id
        (self.state / "0_0" / "rocksdb").mkdir(parents=True)
        self.state_dir = state_dir

    def reset(self, *arguments: str, text: str | None = None) -> Result:
        command = ["reset", self.application_id, "-b", self.broker, "--state-dir", str(self.state_dir), *arguments]
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, command, input=text)

    def untouched(self) -> bool:
        committed = {self.partition: CommittedOffset(5, "AQAAAAAAAAAB")}
        there = self.changelog in self.admin.topics() and (self.state / "0_0").exists()
        return there and self.admin.committed(self.application_id) == committed


@pytest.fixture
def it(broker: str, topic_name: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr(connections, "clusters", list)
    monkeypatch.setattr(connections, "started_here", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return Subject(broker, topic_name("app"), tmp_path)


def test_the_plan_is_listed_and_confirmed_before_it_is_carried_out(it: Subject) -> None:
    listed = it.reset("--input-topics", it.input, "--shift-by", "-2", "--dry-run")
    assert listed.exit_code == 0, listed.output
    [row] = [line.split() for line in listed.output.splitlines() if it.input in line]
    assert row == [it.input, "0", "5", "3"]
    assert f"{it.changelog}\n" in listed.output
    assert "on this machine, for no Ray cluster runs here" in listed.output
    assert "on other machines that ran it: delete this directory there" in listed.output
    assert it.reset("--input-topics", it.input, text="").exit_code == 1  # no answer
    assert it.untouched()

    done = it.reset("--input-topics", it.input, "--shift-by", "-2", text="y\n")
    assert done.exit_code == 0, done.output
    # Without the metadata: the time of a partition belongs to its old offset.
    assert it.admin.committed(it.application_id) == {it.partition: CommittedOffset(3)}
    assert it.changelog not in it.admin.topics()
    assert not it.state.exists()


def test_nobody_deletes_by_an_id_without_looking_or_naming_the_topics(it: Subject) -> None:
    unasked = it.reset("--yes")
    assert isinstance(unasked.exception, ConfigError)
    assert f"--internal-topics {it.changelog}" in str(unasked.exception)
    assert it.untouched()
    assert it.reset("--yes", "--internal-topics", it.changelog).exit_code == 0
    assert it.changelog not in it.admin.topics()
    # No input was named: as with Kafka's tool, its offsets stay.
    assert it.admin.committed(it.application_id)[it.partition].offset == 5


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("--input-topics", "nowhere"), MissingTopicError, "no topic 'nowhere': nothing was done"),
        (("--to-latest", "--to-offset", "3"), ConfigError, "--to-latest and --to-offset: give one of them"),
        (("--internal-topics", "mine"), ConfigError, "--internal-topics mine: not an internal topic"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_is_changed(
    it: Subject, arguments: tuple[str, ...], error: type[StreamsError], says: str
) -> None:
    result = it.reset("--yes", *arguments)
    assert isinstance(result.exception, error), result.output
    assert says in str(result.exception)
    assert it.untouched()


def test_a_reset_that_failed_half_way_reports_that_and_can_be_run_again(
    it: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--input-topics", it.input, "--shift-by", "-2", "--yes", "--internal-topics", it.changelog)

    def fail(self: object, names: object) -> None:
        raise StreamsError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.kafka.admin.ConfluentAdmin.delete_topics", fail)
        failed = it.reset(*arguments)
    assert str(failed.exception) == (
        "the power is gone. The reset is not complete: run it again before the application starts"
    )
    assert it.admin.committed(it.application_id)[it.partition].offset == 5
    assert it.reset(*arguments).exit_code == 0
    assert it.admin.committed(it.application_id)[it.partition].offset == 3
    # A third time there is nothing left to delete, and the names say so.
    assert "not an internal topic" in str(it.reset(*arguments).exception)


def test_stores_that_somebody_has_open_stop_the_reset_before_topics_are_touched(
    it: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(root: Path) -> None:
        raise StateStoreLockedError(f"{root} is open elsewhere")

    monkeypatch.setattr("penstock.cluster.client.local_state.remove_local_state", locked)
    refused = it.reset("--yes", "--internal-topics", it.changelog)
    assert f"{it.state} is open elsewhere. The reset is not complete" in str(refused.exception)
    assert it.untouched()


def test_the_checkpoints_of_a_program_are_deleted_with_its_state(
    it: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    text = ps.Serdes.string()
    builder.stream(it.input, ps.Consumed.with_(text, text)).group_by_key().count(ps.Materialized.as_("counts"))
    uri = tmp_path / "objects"
    config = {
        "application.id": it.application_id, "bootstrap.servers": it.broker, "state.dir": it.state_dir,
        "state.checkpoint.uri": str(uri),
    }  # fmt: skip
    program = ps.KafkaStreams(builder.build(), config)
    monkeypatch.setattr(reset, "load_application", lambda _: program)
    files = [uri / it.application_id / name for name in ("files/a", "tasks/0_0/b.json", "hand-overs/c.json")]
    other = uri / "another" / "files" / "a"
    for file in (*files, other):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    command = ["reset", "module:app", "--state-dir", str(it.state_dir)]
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, "--dry-run"])
    assert f"all of {it.application_id} below the URL of state.checkpoint.uri" in listed.output
    assert all(file.exists() for file in files)
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, "--yes"])
    assert done.exit_code == 0, done.output
    assert [file for file in (*files, other) if file.exists()] == [other]
