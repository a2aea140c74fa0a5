"""The images of an audit point, as the process that reads them on a node sees them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.audit_messages import TaskImage
from penstock.actors.task_host.task_images import IMAGES, end, image_folder, renew
from penstock.cluster.queries import image_reader
from penstock.cluster.queries.image_reader import ImageReader
from penstock.common.errors import StateStoreError
from penstock.common.ids import TaskId
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.range_digests import ROWS_PER_RANGE, digests_of
from tests.waiting import PATIENCE_S, eventually

TASK = TaskId(0, 0)
BUILDER: AnyStoreBuilder = KeyValueStoreBuilder("s")


def image_with(root: Path, rows: dict[bytes, bytes]) -> TaskImage:
    stores = open_task_stores(root / "0_0", [BUILDER])
    batch = stores.new_batch()
    for _ in batch.put_all("s", dict(rows)):
        pass
    stores.write(batch, {"s": 7})
    folder = image_folder(root, "p", TASK)
    folder.parent.mkdir(parents=True)
    stores.checkpoint(folder)
    stores.close()
    return TaskImage(TASK, str(folder), {"s": BUILDER.layout}, {})


def test_digests_and_rows_of_a_image(tmp_path: Path) -> None:
    rows = {f"k{number:05}".encode(): b"v" for number in range(ROWS_PER_RANGE + 10)}
    reader = ImageReader([image_with(tmp_path, rows)], {0: {"s": BUILDER}})
    digests = reader.digests(TASK, "s", None)
    assert digests == digests_of(sorted(rows.items()))
    assert [each.rows for each in digests] == [ROWS_PER_RANGE, 10]
    middle = digests[1].begin
    assert reader.rows(TASK, "s", b"", middle, None) == [row for row in sorted(rows.items()) if row[0] < middle]
    assert len(reader.rows(TASK, "s", middle, None, None)) == 10
    reader.close()
    assert not (tmp_path / IMAGES).exists()


def test_a_view_that_has_ended_is_reported(tmp_path: Path) -> None:
    image = image_with(tmp_path, {b"a": b"1"})
    ImageReader([image], {0: {"s": BUILDER}}).close()
    with pytest.raises(StateStoreError, match="images end when no audit"):
        ImageReader([image], {0: {"s": BUILDER}}).digests(TASK, "s", None)


def test_images_that_another_removes_end_no_thread_and_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    monkeypatch.setattr(image_reader, "LEASE_S", 0.0)
    image = image_with(tmp_path, {b"a": b"1"})
    looks = 0

    def removed(point: Path) -> None:
        nonlocal looks
        end(point)
        looks += 1
        renew(point)

    monkeypatch.setattr(image_reader, "renew", removed)
    reader = ImageReader([image], {0: {"s": BUILDER}})
    eventually(lambda: looks > 2 or bool(raised), "it looks again")
    reader.close()
    assert raised == []
    assert not (tmp_path / IMAGES).exists()


def test_a_lease_that_is_being_renewed_does_not_outlive_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_with(tmp_path, {b"a": b"1"})
    made = threading.Event()
    readers: list[ImageReader] = []

    def late(point: Path) -> None:
        assert made.wait(PATIENCE_S)
        assert readers[0]._closed.wait(PATIENCE_S)
        renew(point)
        order.append("renewed")

    order: list[str] = []
    monkeypatch.setattr(image_reader, "renew", late)
    monkeypatch.setattr(image_reader, "end", lambda point: order.append("ended"))
    readers.append(ImageReader([image], {0: {"s": BUILDER}}))
    made.set()
    readers[0].close()
    assert order == ["renewed", "ended"]
