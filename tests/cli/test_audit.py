"""``penstock audit``: options, the report for people and for programs, and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.audit import DIFFERENCES
from penstock.cli.main import app
from penstock.cluster.client.live_images import take_live_images
from penstock.cluster.ray_cluster import connections
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.pipeline.audit import audit as module
from penstock.pipeline.audit.audit import AuditReport, ShownDifference
from penstock.pipeline.audit.checkpoint_stores import NewestCheckpoints
from penstock.pipeline.audit.comparing import StoreComparison
from penstock.pipeline.audit.origins import KeyOffsets

PROGRAM = """
import penstock as ps
builder = ps.StreamsBuilder()
text = ps.Serdes.string()
builder.stream("in", ps.Consumed.with_(text, text)).to("out", ps.Produced.with_(text, text))
app = ps.KafkaStreams(builder.build(), {"application.id": "audited"})
"""
ORIGIN = KeyOffsets(TopicPartition("in", 1), 7, (3, 4, 5, 6, 9))


def report(different: int = 0, **more: Any) -> AuditReport:
    shown = (ShownDifference("counts", TaskId(1, 0), "'fox'", "3 at 9", "7 at 5", (ORIGIN,)),) if different else ()
    store = StoreComparison("counts", 20, 21, 1, different)
    offsets = {TopicPartition("in", 1): 10}
    return AuditReport((store,), shown, offsets, {"in": 10}, {"held": "it is kept in memory"}, 0.2, 1.5, **more)


class Audits:
    """Takes the place of the audit itself."""

    def __init__(self) -> None:
        self.result: AuditReport | Exception = report()
        self.called: tuple[Any, ...] = ()

    def __call__(self, *called: Any) -> AuditReport:
        self.called = called
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def audits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audits:
    (tmp_path / "audited_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("audited_program", None)
    made = Audits()
    monkeypatch.setattr(module, "audit", made)
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", "audited_program:app", *arguments])


def test_a_clean_audit_ends_with_0(audits: Audits) -> None:
    result = run()
    assert result.exit_code == 0
    assert "nothing differs; 10 records in 1.5 s" in result.output
    assert "held: not compared: it is kept in memory" in result.output


def test_an_audit_of_an_application_that_does_not_run_names_the_option_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect_to(application_id: str) -> None:
        raise ApplicationStateError(f"application {application_id!r} is in no Ray cluster")

    monkeypatch.setattr(connections, "connect_to", connect_to)
    nothing: Any = None
    with pytest.raises(ApplicationStateError, match=r"'audited' is in no Ray cluster\. .*: give --checkpoint"):
        take_live_images("audited", nothing, [], {}, {}, 1.0)


def test_differences_end_with_3_and_are_shown_with_their_offsets(audits: Audits) -> None:
    audits.result = report(1)
    result = run()
    assert result.exit_code == DIFFERENCES == 3
    assert "rows differ" in result.output
    lines = result.output.splitlines()
    at = lines.index("counts, task 1_0, key 'fox'")
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["expected", "3", "at", "9"],
        ["found", "7", "at", "5"],
        ["from", "in-1:", "7", "records", "of", "the", "key,", "at", "offsets", "…,", "3,", "4,", "5,", "6,", "9"],
    ]


def test_for_programs_there_is_json(audits: Audits) -> None:
    audits.result = report(1)
    result = run("--json")
    assert result.exit_code == DIFFERENCES
    document = json.loads(result.stdout)
    assert document["clean"] is False
    assert document["stores"] == [
        {"store": "counts", "computed": 20, "live": 21, "different": 1, "different-is-exact": True}
    ]
    assert document["differences"][0]["records"] == [{"partition": "in-1", "count": 7, "last-offsets": [3, 4, 5, 6, 9]}]
    assert document["offsets"] == {"in-1": 10}


def test_an_audit_that_could_not_be_done_is_an_error(audits: Audits) -> None:
    audits.result = ApplicationStateError("application 'audited' does not run")
    result = run()
    assert isinstance(result.exception, ApplicationStateError), "main() makes exit code 1 of it"


def test_the_sample_is_a_share_of_the_keys(audits: Audits) -> None:
    assert run("--sample", "0.5%").exit_code == 0
    assert audits.called[-1].sample.per_million == 5_000
    for wrong in ("1", "0%", "101%", "half"):
        assert isinstance(run("--sample", wrong).exception, ConfigError)


def test_spark_gets_its_master_and_settings(audits: Audits) -> None:
    assert run("--master", "local[3]", "--conf", "spark.executor.memory=2g").exit_code == 0
    place = audits.called[3]
    assert (place.master, place.conf) == ("local[3]", {"spark.executor.memory": "2g"})
    assert isinstance(run("--conf", "nothing").exception, ConfigError)


def test_checkpoints_are_taken_in_place_of_images_and_named_in_the_table(audits: Audits) -> None:
    result = run("--checkpoint")
    assert result.exit_code == 0
    assert isinstance(audits.called[2], NewestCheckpoints)
    assert "checkpoint" in result.output
    assert "live" not in result.output
    assert not isinstance((run(), audits.called[2])[1], NewestCheckpoints)


def test_ctrl_c_is_130(audits: Audits, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> AuditReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "audit", interrupted)
    assert run().exit_code == 130
