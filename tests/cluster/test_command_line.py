"""``penstock run`` and its companions as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

import penstock as ps
from penstock.kafka.group_tools import GroupTools
from tests import in_memory
from tests.cluster.conftest import WordCount
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually, own_time

ROOT = Path(__file__).parents[2]
RUN = ("-m", "penstock.cli.main", "run", "program:app")
PROGRAM = """
import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
(
    builder.stream({lines!r}, ps.Consumed.with_(STRING, STRING))
    .flat_map_values(lambda line: line.split())
    .group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING))
    .count(ps.Materialized.as_("counts"))
    .to_stream()
    .to({out!r}, ps.Produced.with_(STRING, LONG))
)
app = ps.KafkaStreams(builder.build(), {config!r})
other = 7

if __name__ == "__main__":
    ps.run(app)
"""


def write_program(folder: Path, it: WordCount, **entries: object) -> None:
    """``program.py`` in ``folder``: the word count as a user would write it."""
    config = {
        "application.id": it.application_id,
        "bootstrap.servers": it.broker,
        "state.dir": str(it.state_dir),
        "application.server": "127.0.0.1:0",
        **entries,
    }
    (folder / "program.py").write_text(PROGRAM.format(lines=it.lines, out=it.counts_topic, config=config))


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def penstock(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


class Output:
    """Output of a process, while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def __str__(self) -> str:
        return "".join(self.lines)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self._thread.join(10)
        return code


@contextmanager
def running(folder: Path, *arguments: str, **env: str) -> Iterator[Output]:
    """A Python process that is killed at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        cwd=folder, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output = Output(process)
        yield output
    finally:
        print(output)
        if process.poll() is None:
            process.kill()
            process.wait()


def gcs_address() -> str:
    return str(ray.get_runtime_context().gcs_address)


@pytest.mark.submission
def test_the_other_commands_see_an_application_that_runs_and_sigterm_drains_it(
    word_count: Callable[[], WordCount], tmp_path: Path
) -> None:
    it = word_count()
    it.send(["a b a", "c a"])
    # The default commit interval: what is counted is only committed by the drain.
    write_program(tmp_path, it)
    address = {"RAY_ADDRESS": gcs_address()}
    with running(tmp_path, *RUN, **address) as output:
        eventually(lambda: "4/4 tasks run" in str(output), "running")
        with ps.KafkaStreams.connect(it.application_id) as connected:
            until_settled(connected)
        listed = penstock(tmp_path, "status", **address)
        assert it.application_id in listed.stdout
        shown = penstock(tmp_path, "status", it.application_id, **address)
        assert "1_0" in shown.stdout
        assert "http://127.0.0.1:" in shown.stdout

        def counted() -> bool:
            return penstock(tmp_path, "query", it.application_id, "counts", "a", **address).stdout == "3\n"

        eventually(counted, "three a")

        def others_counted() -> bool:
            rows = penstock(tmp_path, "query", it.application_id, "counts", "--from", "b", **address)
            return rows.stdout == "b\t1\nc\t1\n"

        eventually(others_counted, "one b and one c")
        assert penstock(tmp_path, "query", it.application_id, "counts", "z", **address).returncode == 1
        # From a folder where the program cannot be imported.
        (tmp_path / "elsewhere").mkdir()
        one = penstock(tmp_path / "elsewhere", "query", it.application_id, "counts", "a", "--json", **address)
        assert json.loads(one.stdout) == {"key": "a", "value": 3, "timestamp": 1001}, one.stderr
        until_all_is_well(tmp_path, it.application_id, **address)
        (counts,) = document(tmp_path, "stores", it.application_id, "--json", **address)
        assert (counts["name"], counts["changelog"]) == ("counts", f"{it.application_id}-counts-changelog")
        assert [(each["task_id"], each["state"], each["lag"]) for each in counts["partitions"]] == [
            ("1_0", "running", 0), ("1_1", "running", 0)
        ]  # fmt: skip
        results = document(tmp_path, "doctor", "program:app", "--json", **address)
        found = {each["name"]: each for each in results}
        assert found["broker"]["found"].startswith("Kafka 4."), found
        assert [found[name]["level"] for name in ("broker", "nodes", "clocks")] == ["ok"] * 3, found
        assert found["state.dir"]["level"] == ("warning" if tmp_path.is_relative_to(in_memory.FOLDER) else "ok"), found
        assert found["Ray"]["found"].startswith(f"Ray {ray.__version__} at {gcs_address()}, 1 node"), found
        assert found["program"]["level"] == "ok", found
        unknown = penstock(tmp_path, "query", it.application_id, "nope", "a", **address)
        assert unknown.returncode == 1
        assert "its stores: counts" in unknown.stderr
        assert output.end(signal.SIGTERM) == 0, str(output)
        assert "has stopped; all it processed is committed" in str(output)
    assert_drained(it)
    gone = penstock(tmp_path, "status", it.application_id, **address)
    assert gone.returncode == 1
    assert "does not run in the Ray cluster at" in gone.stderr


def document(folder: Path, *arguments: str, **env: str) -> Any:
    """The document that a command prints. On a busy machine Ray may not answer at first: then it is asked again."""
    printed: list[str] = []

    def answered() -> bool:
        done = penstock(folder, *arguments, **env)
        print(" ".join(arguments), done.stderr)
        printed.append(done.stdout)
        return bool(done.stdout)

    eventually(answered, f"a document of {arguments[0]}")
    return json.loads(printed[-1])


def until_all_is_well(folder: Path, application_id: str, **env: str) -> None:
    """Waits until ``penstock top`` finds nothing wrong and no task behind. All is processed already, but actors may not
    have reported it yet."""
    seen: list[dict[str, Any]] = []

    def well() -> bool:
        seen.append(document(folder, "top", application_id, "--json", **env))
        print(seen[-1]["findings"])
        tasks = seen[-1]["tasks"]
        return seen[-1]["findings"][0]["level"] == "ok" and all(each["behind_s"] == each["lag"] == 0 for each in tasks)

    eventually(well, "penstock top finds all well")
    assert seen[-1]["findings"][0]["sentence"].startswith("All is well: 4 tasks on ")
    assert sorted(each["task_id"] for each in seen[-1]["tasks"]) == ["0_0", "0_1", "1_0", "1_1"]


@pytest.mark.long
def test_sigterm_to_the_whole_process_group_drains_it_with_a_ray_of_its_own(
    word_count: Callable[[], WordCount], tmp_path: Path
) -> None:
    it = word_count()
    it.send(["a b a", "c a"])
    write_program(tmp_path, it)
    group = "import os, sys; os.setpgid(0, 0); os.execv(sys.executable, [sys.executable, '-u', *sys.argv[1:]])"
    with running(tmp_path, "-c", group, *RUN, RAY_ADDRESS="local") as output:
        eventually(it.complete, "all counts written")
        os.killpg(output.process.pid, signal.SIGTERM)
        assert output.process.wait(PATIENCE_S) == 0, str(output)
    assert_drained(it)


@pytest.mark.long
def test_ctrl_c_drains_a_program_that_calls_run(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()
    it.send(["a b a", "c a"])
    write_program(tmp_path, it)
    with running(tmp_path, "program.py", RAY_ADDRESS=gcs_address()) as output:
        eventually(it.complete, "all counts written")
        assert output.end(signal.SIGINT) == 0, str(output)
    assert_drained(it)


def assert_drained(it: WordCount) -> None:
    assert it.complete()
    assert it.committed() == 2


@pytest.mark.long
def test_stop_ends_an_application_of_another_process_which_leaves_its_group(
    word_count: Callable[[], WordCount], tmp_path: Path
) -> None:
    it = word_count()
    write_program(tmp_path, it)
    address = {"RAY_ADDRESS": gcs_address()}
    with running(tmp_path, *RUN, **address) as output:
        eventually(lambda: "4/4 tasks run" in str(output), "running")
        stopped = penstock(tmp_path, "stop", it.application_id, "--leave-group", **address)
        assert stopped.returncode == 0, stopped.stderr
        assert output.process.wait(PATIENCE_S) == 0
    assert GroupTools(it.broker).members(it.application_id) == ()


@pytest.mark.submission
def test_an_error_is_printed_and_sets_the_exit_code(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()
    producer = it.clients.producer()
    producer.send(it.lines, None, b"\xff\xfe", 1, partition=1)
    producer.flush(60)
    producer.close()
    write_program(tmp_path, it)
    result = penstock(tmp_path, "run", "program:app", RAY_ADDRESS=gcs_address())
    assert result.returncode == 1
    assert f"topic {it.lines}, partition 1, offset 0" in result.stderr
    # In one piece, below whatever Ray and the actors wrote.
    cause = result.stderr[result.stderr.index(f"application {it.application_id!r} ended in ERROR: ") :]
    assert "pid=" not in cause
    assert "[info" not in cause
    assert cause.endswith("invalid start byte\n")


def test_missing_topics_are_named_before_ray_is_touched(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()
    it.admin.delete_topics([it.lines])
    eventually(lambda: it.lines not in it.admin.topics(), "topic deleted")
    write_program(tmp_path, it)
    result = penstock(tmp_path, "run", "program:app", RAY_ADDRESS="127.0.0.1:1")
    assert result.returncode == 1
    assert f"penstock topic create {it.lines} --partitions 4" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.submission
def test_a_broker_that_does_not_answer_is_named_within_ten_seconds(
    word_count: Callable[[], WordCount], tmp_path: Path
) -> None:
    it = word_count()
    write_program(tmp_path, it, **{"bootstrap.servers": "127.0.0.1:1"})
    from penstock.cli.loading import load_application
    from penstock.common.errors import BrokerUnreachableError

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        app = load_application("program:app")
    sys.modules.pop("program")
    with own_time() as elapsed_s:
        with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1"):
            app.start()
        assert elapsed_s() < 10


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("program", "'program' is not MODULE:APP"),
        ("./live.py:app", "'./live.py:app' names a file: name the module, live:app"),
        ("programs/live.py:app", "'programs/live.py:app' names a file: name the module, programs.live:app"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("program:nope", "module 'program' has no 'nope'; it has program:app"),
        ("program:other", "program:other is a int, not a penstock.KafkaStreams"),
        ("broken:app", "module 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("needy:app", "module 'needy' cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ("wrong:app", "unknown configuration key 'aplication.id'; did you mean 'application.id'?"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_one_clear_sentence(tmp_path: Path, target: str, says: str) -> None:
    make = (
        "import penstock as ps\nb, text = ps.StreamsBuilder(), ps.Serdes.string()\n"
        "b.stream('x', ps.Consumed.with_(text, text)).to('y')\napp = ps.KafkaStreams(b.build(), {})\n"
    )
    (tmp_path / "program.py").write_text(make.format("{'application.id': 'a'}") + "other = 7\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "needy.py").write_text("import not_there\n")
    (tmp_path / "wrong.py").write_text(make.format("{'aplication.id': 'a'}"))
    result = penstock(tmp_path, "describe", target)
    assert result.returncode == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
