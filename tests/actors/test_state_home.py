"""State directories that are not what they seem: of another application, of a newer version, or that cannot be
written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.actors.task_host.state_cleanup import remove_local_state
from penstock.actors.task_host.state_home import OWNER_FILE
from penstock.common.ids import TaskId
from tests.actors.rig import APPLICATION, Rig, count_of, settle


def ended(rig: Rig) -> str:
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    return loop.finished.result() or ""


def rewrite(home: Path, **record: object) -> None:
    file = home / OWNER_FILE
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {key.replace("_", "."): it for key, it in record.items()})
    )


def with_state(state_dir: Path) -> Rig:
    rig = Rig(state_dir)
    rig.write("in", ("a", "x", 1))
    loop = rig.running()
    rig.commit(loop)
    rig.stop(loop)
    return rig


def test_the_directory_names_its_application_and_is_used_again(tmp_path: Path) -> None:
    rig = with_state(tmp_path)
    assert json.loads((tmp_path / APPLICATION / OWNER_FILE).read_text()) == {"application.id": APPLICATION, "format": 1}
    assert count_of(rig.running(epoch=2), "a") == 1


def test_state_of_another_application_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    rig = with_state(tmp_path)
    rewrite(tmp_path / APPLICATION, application_id="other")
    record = ended(rig)
    assert (
        f"{tmp_path / APPLICATION} belongs to application 'other', not to 'app': move it back, or delete it" in record
    )
    assert (tmp_path / APPLICATION / "0_0" / "rocksdb" / "CURRENT").exists(), "nothing was deleted"


def test_state_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    rig = with_state(tmp_path)
    rewrite(tmp_path / APPLICATION, format=2)
    record = ended(rig)
    assert (
        "a newer version of penstock (format 2, this one knows 1): start that version, or delete the directory"
        in record
    )
    shutil.rmtree(tmp_path / APPLICATION)
    assert count_of(rig.running(epoch=2), "a") == 1, "as the message says"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"application.id": "app", "format": "x"}'])
def test_an_owner_file_without_an_owner_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    rig = with_state(tmp_path)
    (tmp_path / APPLICATION / OWNER_FILE).write_text(text)
    assert f"{tmp_path / APPLICATION / OWNER_FILE} does not name its application" in ended(rig)


def test_state_that_was_left_by_a_version_without_the_file_is_used(tmp_path: Path) -> None:
    rig = with_state(tmp_path)
    (tmp_path / APPLICATION / OWNER_FILE).unlink()
    assert count_of(rig.running(epoch=2), "a") == 1
    assert (tmp_path / APPLICATION / OWNER_FILE).exists()


def test_clean_up_removes_the_file_too(tmp_path: Path) -> None:
    with_state(tmp_path)
    remove_local_state(tmp_path / APPLICATION)
    assert not (tmp_path / APPLICATION).exists()


def test_a_state_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    record = ended(Rig(tmp_path / "state"))
    assert "StateStoreError" in record
    assert f"the state directory {tmp_path / 'state' / APPLICATION / '0_0'} cannot be written" in record
