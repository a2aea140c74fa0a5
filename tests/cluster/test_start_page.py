"""The commands of docs/START.md, on a real Kafka and a real Ray, show what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock as ps
from examples.tutorial.step_1_count import app as program
from penstock.cli.main import app as commands
from tests.architecture.sources import ROOT
from tests.cluster.asking import patient_client
from tests.cluster.settled import until_settled
from tests.waiting import eventually

pytestmark = pytest.mark.submission

SHOWN = dict(re.findall(r"^\$ (.*)\n((?:[^$`].*\n)*)", (ROOT / "docs" / "START.md").read_text(), re.MULTILINE))
"""The output of each command of the page."""


def test_the_first_program_gives_what_the_page_shows(
    broker: str, ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", broker)

    def penstock(command: str, given: str | None = None) -> str:
        return CliRunner().invoke(commands, command.split()[1:], given, catch_exceptions=False).stdout

    send, read, query, curl = SHOWN
    penstock("penstock topic create messages word-counts")
    where = {"bootstrap.servers": broker, "state.dir": tmp_path, "application.server": "127.0.0.1:0"}
    # The only commit is the one at the end. A commit between two records would also write an earlier count of a word.
    config = {"application.id": program.application_id, "commit.interval.ms": 3_600_000, **where}
    with ps.KafkaStreams(program.topology, config) as app:
        until_settled(app)
        text = re.search(r"printf '(.*)'", send)
        assert text is not None
        assert penstock(send.partition(" | ")[2], text[1].replace("\\n", "\n")) == SHOWN[send]
        _, store, word = query.split()[-3:]
        eventually(lambda: f"{app.store(store).get(word)}\n" == SHOWN[query], "the count that the page shows")
        address = app.status().http_address
        assert address is not None
        shown = json.loads(SHOWN[curl]) | {"timestamp": 0}
        with patient_client(address) as client:
            eventually(
                lambda: client.get(curl.partition(":8080")[2]).json() | {"timestamp": 0} == shown,
                "the answer that the page shows",
            )
        assert app.close()
    assert penstock(read) == SHOWN[read]
