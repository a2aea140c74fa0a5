"""Audits that are interrupted or killed: the application continues, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import ray

from penstock.actors.task_host.task_images import IMAGES
from penstock.cluster.status import ApplicationState
from tests.cluster.conftest import WordCount
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually

PROGRAM = """
import os
from pathlib import Path
from tests.cluster.conftest import WordCount


class Existing(WordCount):
    def __init__(self) -> None:
        self.broker, self.application_id = os.environ["AUDITED_BROKER"], os.environ["AUDITED_ID"]
        self.state_dir = Path(os.environ["AUDITED_STATE"])
        self.lines, self.counts_topic = f"{self.application_id}-in", f"{self.application_id}-out"


app = Existing().app()
"""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def audited(ray_cluster: None, broker: str, topic_name: Callable[[str], str], tmp_path: Path) -> Iterator[WordCount]:
    it = WordCount(broker, topic_name("killed-audit"), tmp_path)
    it.send(["the quick brown fox"] * 20_000)
    app = it.app()
    app.start()
    until_settled(app)
    eventually(lambda: it.committed() == 20_000, "all is counted")
    yield it
    assert app.status().state is ApplicationState.RUNNING
    it.send(["and more"])
    eventually(it.complete, "the application counts what comes after the audits")
    assert app.close()


@contextmanager
def audit_in_its_first_stage(it: WordCount) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Yields a running ``penstock audit``, and the lines that it has written so far."""
    (it.state_dir / "audited_program.py").write_text(PROGRAM)
    environment = os.environ | {
        "AUDITED_BROKER": it.broker,
        "AUDITED_ID": it.application_id,
        "AUDITED_STATE": str(it.state_dir),
        "PYTHONPATH": f"{ROOT}:{it.state_dir}",
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
    }
    command = [sys.executable, "-m", "penstock.cli.main", "audit", "audited_program:app", "--master", "local[1]"]
    auditor = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    assert auditor.stderr is not None
    lines: list[str] = []
    for line in auditor.stderr:
        lines.append(line)
        if line.startswith("stage 1"):
            break
    assert lines[-1].startswith("stage 1"), "".join(lines)
    try:
        yield auditor, lines
    finally:
        auditor.kill()
        auditor.wait()


@pytest.mark.long
def test_spark_is_killed_and_then_the_auditor(audited: WordCount) -> None:
    root = audited.state_dir / audited.application_id
    with audit_in_its_first_stage(audited) as (auditor, lines):
        assert (root / IMAGES).exists()
        (java,) = (each for each in psutil.Process(auditor.pid).children(recursive=True) if each.name() == "java")
        java.send_signal(signal.SIGKILL)
        assert auditor.stderr is not None
        lines += auditor.stderr
        assert auditor.wait(PATIENCE_S) == 1
    assert "Spark has ended" in lines[-1]
    assert not list(root.glob("audit-*")), "images and work are removed"

    with audit_in_its_first_stage(audited) as (auditor, _):
        family = psutil.Process(auditor.pid).children(recursive=True)
        auditor.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, PATIENCE_S)
    assert not alive, "Spark ends with its driver"
    eventually(lambda: not (root / IMAGES).exists(), "the actors remove the images when their lease is over")


@pytest.mark.long
def test_ctrl_c_ends_an_audit_and_its_spark_with_one_message(audited: WordCount) -> None:
    root = audited.state_dir / audited.application_id
    with audit_in_its_first_stage(audited) as (auditor, lines):
        family = psutil.Process(auditor.pid).children(recursive=True)
        os.killpg(auditor.pid, signal.SIGINT)  # as a terminal does: to Spark's processes, too
        assert auditor.stderr is not None
        lines += auditor.stderr
        assert auditor.wait(PATIENCE_S) == 130, "".join(lines)
    assert lines[-1] == "The audit was interrupted, and has changed nothing. Run it again\n", "".join(lines)
    assert "Traceback" not in "".join(lines)
    assert not [each for each in family if each.is_running()]
    assert not (root / IMAGES).exists()
    assert not list(root.glob("audit-*")), "images and work are removed"
