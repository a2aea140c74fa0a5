"""``penstock reset`` and ``clean_up`` on a real broker and a real Ray."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.main import app as commands
from penstock.cluster.client.close_options import CloseOptions
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka import group_tools
from tests.cluster.conftest import WordCount
from tests.cluster.test_command_line import write_program
from tests.waiting import PATIENCE_S, eventually, once_ready


class Reset:
    """``penstock reset`` of a word count, in this process, which is connected to Ray."""

    def __init__(self, it: WordCount, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_program(folder, it)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, "program", raising=False)

    def __call__(self, *arguments: str, text: str | None = None, target: str = "program:app") -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(commands, ["reset", target, *arguments], input=text)


def refusal(result: Result) -> str:
    assert isinstance(result.exception, ApplicationStateError), result.output
    return str(result.exception)


@pytest.mark.long
def test_a_reset_application_processes_its_input_again_and_counts_nothing_twice(
    word_count: Callable[[], WordCount], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = word_count()
    name = it.application_id
    other = f"{name}-b-counts-changelog"  # of an application whose id begins as this one's
    it.admin.create_topics([NewTopic(other, 1)])
    reset = Reset(it, tmp_path, monkeypatch)
    monkeypatch.setattr(group_tools, "_BACK_S", 0.2)  # no member comes back
    it.send(["a b a", "c a"])
    app = it.app()
    app.start()
    app.wait_until_running(PATIENCE_S)
    eventually(it.complete, "all counts written")
    assert f"stop it with 'penstock stop {name}'" in refusal(reset("--force", "--yes"))
    with pytest.raises(ApplicationStateError, match=r"is not closed: clean_up\(\) is for before start\(\) and after"):
        app.clean_up()
    assert app.close()
    message = refusal(reset("--yes"))
    assert re.search(rf"{name}-[0-9a-f]{{8}} of 127.0.0.1", message)
    assert "has passed (45 s): wait, or remove it now by --force" in message
    looked = reset("--dry-run")
    assert "Members that are removed" not in looked.output
    assert f"It would be refused now: group '{name}' has 1 member" in looked.output

    internal = {f"{name}-counts-changelog", f"{name}-counts-repartition"}
    state = it.state_dir / name
    dry = reset("--force", "--dry-run")
    declined = reset("--force", text="n\n")
    for result in (dry, declined):
        for shown in (*internal, it.lines, str(state), f"{other}: not of this topology", "2 directories"):
            assert shown in result.output
    assert (dry.exit_code, declined.exit_code) == (0, 1)
    assert it.committed() == 2
    assert internal <= it.admin.topics().keys()
    assert len(list(state.glob("*_*/rocksdb"))) == 2

    done = reset("--force", text="y\n")
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"Application {name} is reset\n")
    assert it.admin.committed(name) == {TopicPartition(it.lines, each): CommittedOffset(0) for each in (0, 1)}
    assert not internal & it.admin.topics().keys()
    assert other in it.admin.topics()
    assert not state.exists()

    it.admin.delete_topics([it.counts_topic])
    it.admin.create_topics([NewTopic(it.counts_topic, 1)])
    again = it.app()
    again.start()
    eventually(it.complete, "all counted again")
    assert once_ready(lambda: dict(again.store("counts").all())) == dict(it.sent)
    leave = CloseOptions.GroupMembershipOperation.LEAVE_GROUP
    assert again.close(CloseOptions.group_membership_operation(leave))
    assert it.admin.group_members(name) == 0
    assert reset("--dry-run").exit_code == 0
    assert state.exists()
    again.clean_up()
    assert not state.exists()
    assert internal <= it.admin.topics().keys()
