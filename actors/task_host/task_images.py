"""Images of the committed rows of tasks, for an audit: folders below the application's directory on a node.

An image consists of hard links to the files of RocksDB, so taking it costs some ms and hardly any disk. It stays the
same if the task moves or its actor ends, and any process of the node can open it. Rows of stores in memory are
written to a file. The images of a point end ``LEASE_S`` seconds after they were last needed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from penstock.common.errors import StateStoreError
from penstock.common.files import write_whole
from penstock.common.ids import TaskId
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.state_manager import StateManager

IMAGES = "audit-images"
"""The directory below the application's that has the images: one for each point, with one for each task."""
LEASE_S = 120.0
_LEASE = "needed"
_IN_MEMORY = ".rows"
_Rows = list[tuple[bytes, bytes]]


def image_folder(root: Path, point: str, task: TaskId) -> Path:
    """Returns the folder of the image of ``task``. ``root``: the application's directory on this node."""
    return root / IMAGES / point / str(task)


def take_image(stores: StateManager, folder: Path) -> tuple[Mapping[str, str], Callable[[], None]]:
    """Keep the committed rows of a task in ``folder``, of which an earlier image is replaced.

    Returns the layouts of its stores that have rows, and the function that writes the rows of stores in memory: in
    another thread. Raises StateStoreError, and OSError if the disk does not take it.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    renew(folder.parent)
    stores.flush_to_disk()
    on_disk = stores.checkpoint(folder)
    folder.mkdir(exist_ok=True)
    layouts = {name: found.layout for name, found in on_disk.items()}
    in_memory: dict[str, _Rows] = {}
    for name, builder in stores.program.stores.items():
        opened = stores.store(name)
        if name not in layouts and not opened.lies_in_memory:
            layouts[name] = builder.layout
            in_memory[name] = list(opened.context.committed.scan(None, None))

    def write() -> None:
        for name, rows in in_memory.items():
            (folder / f"{name}{_IN_MEMORY}").write_bytes(msgspec.msgpack.encode(rows))

    return layouts, write


def open_image(folder: Path, builders: Mapping[str, AnyStoreBuilder]) -> TaskStores:
    """Open the stores of an image. Raises StateStoreError if it is not there, or cannot be read."""
    if not folder.exists():
        raise StateStoreError(
            f"the image {folder} is gone: images end when no audit has asked for them for {LEASE_S:.0f} s. Run the "
            "audit again"
        )
    stores = open_task_stores(folder, builders.values())
    for name in builders:
        file = folder / f"{name}{_IN_MEMORY}"
        if file.exists():
            batch = stores.new_batch()
            for _ in batch.put_all(name, dict(msgspec.msgpack.decode(file.read_bytes(), type=_Rows))):
                pass
            stores.write(batch, {})
    return stores


def renew(images: Path) -> None:
    """Say that the images of a point, in this folder, are needed: they stay for ``LEASE_S`` seconds. Raises OSError,
    also if they are removed."""
    write_whole(images / _LEASE, f"{time.time():.0f}\n")


def end(images: Path) -> None:
    """Remove the images of a point. Idempotent."""
    shutil.rmtree(images, ignore_errors=True)
    try:
        images.parent.rmdir()
    except OSError:  # another point has images, or it is gone
        return


def end_forgotten(root: Path, now_s: float) -> None:
    """Remove the images whose lease is over. ``now_s``: the time of the system's clock."""
    for images in (root / IMAGES).glob("*"):
        try:
            needed_s = (images / _LEASE).stat().st_mtime
        except OSError:
            needed_s = images.stat().st_mtime if images.exists() else now_s
        if now_s - needed_s > LEASE_S:
            end(images)
