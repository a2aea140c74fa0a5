"""Ctrl-C in ``penstock backfill``: one sentence, no traceback, and a backfill that can be run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.common.topics import NewTopic
from penstock.kafka.admin import ConfluentAdmin
from tests.waiting import PATIENCE_S

PROGRAM = """
import os, time
import penstock as ps

def slow(value):
    time.sleep(20)
    return value

builder = ps.StreamsBuilder()
text = ps.Serdes.string()
builder.stream(os.environ["INPUT"], ps.Consumed.with_(text, text)).map_values(slow).to(
    os.environ["INPUT"] + "-out", ps.Produced.with_(text, text)
)
app = ps.KafkaStreams(builder.build(), {{
    "application.id": os.environ["INPUT"], "bootstrap.servers": {broker!r}, "state.dir": os.environ["STATE"],
}})
"""


@pytest.mark.long
def test_ctrl_c_ends_a_backfill_with_one_sentence(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_name("slow")
    ConfluentAdmin(broker, {}).create_topics([NewTopic(topic, 1), NewTopic(f"{topic}-out", 1)])
    command = [sys.executable, "-m", "penstock.cli.main"]
    environment = {**os.environ, "INPUT": topic, "STATE": str(tmp_path / "state")}
    (tmp_path / "program.py").write_text(PROGRAM.format(broker=broker))
    subprocess.run(
        [*command, "topic", "send", topic, "-b", broker], input="one\n", text=True, check=True, capture_output=True
    )
    with subprocess.Popen(
        [*command, "backfill", "program:app", "--master", "local[1]"],
        cwd=tmp_path, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as backfill:  # fmt: skip
        assert backfill.stderr is not None
        assert any("stage 1 of 1" in line for line in iter(backfill.stderr.readline, ""))
        os.killpg(backfill.pid, signal.SIGINT)  # as a terminal does: to Spark's processes, too
        _, errors = backfill.communicate(timeout=PATIENCE_S)
    assert backfill.returncode == 130, errors
    assert f"The backfill of {topic} was interrupted. Run it again" in errors
    assert "Traceback" not in errors, errors
