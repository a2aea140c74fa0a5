"""A backfill runs wherever Spark does; executors need neither penstock nor the program."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.loading import load_application
from penstock.common.config import StreamsConfig
from penstock.common.errors import LocalBrokerError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.pipeline.backfill.backfill import backfill
from tests.pipeline.spark.clusters import LOOPBACK, SMALL, executors_python, run_penstock, standalone_cluster

LONG = ps.Serdes.long()
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"] * 20
PROGRAM = """
import penstock as ps
from words_of_users.shouting import loud

STRING = ps.Serdes.string()
builder = ps.StreamsBuilder()
lines = builder.stream("{name}", ps.Consumed.with_(STRING, STRING))
words = lines.map_values(loud).group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING))
words.count(ps.Materialized.as_("counts").with_key_serde(STRING))
app = ps.KafkaStreams(builder.build(), {{"application.id": "{name}-app", "bootstrap.servers": "{broker}"}})
"""


class Program:
    """A program of the user's in a folder, of a module and a package, and its topic with records."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.folder, self._name = folder, name
        (folder / "words_of_users").mkdir(parents=True)
        (folder / "words_of_users" / "__init__.py").touch()
        (folder / "words_of_users" / "shouting.py").write_text("def loud(word):\n    return word.upper()\n")
        (folder / "users_counts.py").write_text(PROGRAM.format(name=name, broker=broker))
        config = StreamsConfig.of({"application.id": f"{name}-app", "bootstrap.servers": broker})
        self._clients = ConfluentClients.of(config)
        self._clients.admin().create_topics([NewTopic(name, 2)])
        with closing(self._clients.producer()) as producer:
            for number, word in enumerate(WORDS):
                producer.send(name, b"", word.encode(), number + 1, None, number % 2)
            assert producer.flush(60)

    def topics(self) -> set[str]:
        return {topic for topic in self._clients.admin().topics() if topic.startswith(self._name)}

    def counts(self) -> dict[str, int]:
        """Returns what the application would restore: nothing before a backfill."""
        partitions = [TopicPartition(f"{self._name}-app-counts-changelog", number) for number in range(2)]
        if partitions[0].topic not in self._clients.admin().topics():
            return {}
        found: dict[str, int] = {}
        with closing(self._clients.consumer()) as consumer:
            ends = {p: end for p, end in consumer.fetch_end_offsets(partitions).items() if end}
            consumer.assign(dict.fromkeys(ends, BEGINNING))
            while any(consumer.position(p) < end for p, end in ends.items()):
                for batch in consumer.poll(1000, 0.1):
                    for key, value in zip(batch.keys, batch.values, strict=True):
                        assert key is not None
                        assert value is not None
                        found[key.decode()] = LONG.deserialize(value)
        return found


EXPECTED = dict(Counter(word.upper() for word in WORDS))
BACKFILL = ("backfill", "users_counts:app")


@pytest.fixture
def program(broker: str, topic_name: Callable[[str], str], tmp_path: Path) -> Program:
    return Program(broker, topic_name("words"), tmp_path / "program")


@pytest.mark.submission
def test_executors_in_other_processes_get_penstock_and_the_program_with_the_job(
    program: Program, tmp_path: Path
) -> None:
    python = executors_python(tmp_path / "python")
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text(f"# of this machine\nspark.pyspark.python  {python}\nspark.executor.memory=512m\n")
    done = run_penstock(
        program.folder, *BACKFILL, "--master", "local-cluster[2,1,600]", *LOOPBACK,
        environment={"SPARK_CONF_DIR": str(defaults.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr, "the lines of Java's start are not shown"
    assert program.counts() == EXPECTED


@pytest.mark.long
def test_a_standalone_cluster_gets_them_too_and_what_an_executor_lacks_is_named_before_any_work(
    program: Program, tmp_path: Path
) -> None:
    complete = executors_python(tmp_path / "python")
    poor = executors_python(tmp_path / "poor", without=("msgspec", "rocksdict"))
    with standalone_cluster(tmp_path / "cluster", workers=2) as master:
        where = (*BACKFILL, "--master", master, "--work", str(tmp_path / "work"), *LOOPBACK, *SMALL)
        done = run_penstock(program.folder, *where, "--conf", f"spark.pyspark.python={poor}")
        assert done.returncode == 1
        assert "has no package msgspec, rocksdict: install it there for" in done.stderr
        assert str(tmp_path / "cluster" / "worker-") in done.stderr
        done = run_penstock(program.folder, *where, "--conf", "spark.pyspark.python=/nowhere/python")
        assert done.returncode == 1
        assert "executors have no /nowhere/python, the driver's Python: set PYSPARK_PYTHON" in done.stderr
        assert program.counts() == {}
        done = run_penstock(program.folder, *where, "--conf", f"spark.pyspark.python={complete}")
        assert done.returncode == 0, done.stderr
        assert program.counts() == EXPECTED


@pytest.mark.long
def test_a_program_that_spark_submit_has_started_keeps_its_master_and_settings(
    program: Program, tmp_path: Path
) -> None:
    log = tmp_path / "events"
    log.mkdir()
    submit = ("--master", "local[2]", "--name", "by submit", "--conf", "spark.eventLog.enabled=true",
              "--conf", "spark.eventLog.compress=false", "--conf", "spark.sql.shuffle.partitions=3")  # fmt: skip
    done = run_penstock(program.folder, *BACKFILL, submit=(*submit, *LOOPBACK, "--conf", f"spark.eventLog.dir={log}"))
    assert done.returncode == 0, done.stderr
    assert program.counts() == EXPECTED
    events = "".join(file.read_text() for file in log.rglob("*") if file.is_file())
    assert '"spark.master":"local[2]"' in events
    assert '"spark.sql.shuffle.partitions":"3"' in events, "the user's value wins over penstock's"


@pytest.mark.long
def test_a_master_that_is_not_there_is_named(program: Program) -> None:
    done = run_penstock(program.folder, *BACKFILL, "--master", "spark://127.0.0.1:1", "--work", "work", *LOOPBACK)
    assert done.returncode == 1
    assert "Spark did not start at the master spark://127.0.0.1:1" in done.stderr
    assert program.counts() == {}


def test_a_setting_that_would_make_results_wrong_is_refused(program: Program) -> None:
    done = run_penstock(program.folder, *BACKFILL, "--conf", "spark.speculation=true")
    assert done.returncode == 1
    assert "spark.speculation=true: penstock needs false" in done.stderr


def test_without_java_nothing_is_done(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise LocalBrokerError("No Java 17 or newer was found")

    monkeypatch.setattr("penstock.pipeline.spark.java_for_spark.find_java", no_java)
    monkeypatch.syspath_prepend(program.folder)
    before = program.topics()
    app = load_application("users_counts:app")
    sys.modules.pop("users_counts")
    with pytest.raises(LocalBrokerError, match="No Java 17"):
        backfill(app.topology, app.config)
    assert program.topics() == before
