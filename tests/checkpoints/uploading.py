"""A process that commits and uploads checkpoints until it kills itself: ``python -m tests.checkpoints.uploading``.

The kill comes a random time after some operation on the storage has begun. The process prints the commit of each
checkpoint that it has saved, and the operation to standard error.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from penstock.checkpoints.manifest import CheckpointDraft, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder

BUILDERS = [KeyValueStoreBuilder[bytes, bytes]("numbers")]
ROW = bytes(range(256)) * 16


class Doomed:
    """``objects``; the process dies soon after operation ``last`` has begun."""

    def __init__(self, objects: ObjectStore, last: int, after_s: float) -> None:
        self._objects, self._left, self._after_s = objects, last, after_s

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._objects, name)
        return self._counted(name, found) if callable(found) else found

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        self._left -= 1
        if self._left == 0:
            print(name, file=sys.stderr, flush=True)
            Thread(target=self._die, daemon=True).start()
        return call

    def _die(self) -> None:
        time.sleep(self._after_s)
        signal.raise_signal(signal.SIGKILL)


def commit(stores: TaskStores) -> int:
    """Commit one more number. Returns it."""
    number = (stores.changelog_offset("numbers") or 0) + 1
    batch = stores.new_batch()
    batch.put("numbers", b"%08d" % number, ROW)
    stores.write(batch, {"numbers": number})
    return number


def main(home: Path, storage: str, epoch: int) -> None:
    """Run until the end."""
    chosen = Random(epoch)
    objects: Any = Doomed(ObjectLocation(storage).open(), chosen.randint(1, 80), chosen.random() / 300)
    writer = CheckpointRepository(objects, "app").writer("0_0", epoch)
    stores = open_task_stores(home / "task", BUILDERS)
    for attempt in range(1000):
        number = commit(stores)
        if chosen.random() < 0.3:
            stores.flush()
        folder = home / f"checkpoint-{epoch}-{attempt}"
        (found,) = stores.checkpoint(folder).values()
        stored = StoreInCheckpoint(found.layout, "numbers", "id", found.changelog_offset)
        writer.save(folder, CheckpointDraft(number, {"numbers": stored}, {}))
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
