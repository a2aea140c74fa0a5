"""Reads the images of an audit point on one node, in a process of its own: so that the stream actors need not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from penstock.actors.audit_messages import TaskImage
from penstock.actors.task_host.task_images import LEASE_S, end, open_image, renew
from penstock.common.ids import TaskId
from penstock.state.builders import AnyStoreBuilder
from penstock.state.compared_rows import digests_of_store, rows_of_store
from penstock.state.contracts import TaskStores
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row

_NICENESS = 19
Builders = Mapping[int, Mapping[str, AnyStoreBuilder]]
"""The stores of each sub-topology, by name. They need no serdes."""


class ImageReader:
    """The images of the tasks of one node. As long as it lives, they stay; :meth:`close` removes them."""

    def __init__(self, images: Iterable[TaskImage], builders: Builders) -> None:
        self._images = {image.task_id: image for image in images}
        self._points = {Path(image.folder).parent for image in self._images.values()}
        self._builders = builders
        self._open: dict[TaskId, TaskStores] = {}
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="audit-images", daemon=True)
        self._keeper.start()

    @staticmethod
    def give_way() -> None:
        """Let every other process of the node go first. For a process that does nothing else."""
        os.nice(_NICENESS)

    def digests(self, task: TaskId, store: str, sample: KeySample | None) -> list[RangeDigest]:
        """Returns the digests of all rows that an audit compares, or of those in ``sample``. Raises StateStoreError if
        they cannot be read."""
        return digests_of_store(self._builders[task.subtopology][store], self._stores(task).store(store), sample)

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        """Returns the rows of a range, by key."""
        builder = self._builders[task.subtopology][store]
        return rows_of_store(builder, self._stores(task).store(store), begin, end, sample)

    def close(self) -> None:
        """Remove the images. Idempotent."""
        self._closed.set()
        self._keeper.join()  # its last write would be in the way of the removal
        while self._open:
            self._open.popitem()[1].close()
        for point in self._points:
            end(point)

    def _stores(self, task: TaskId) -> TaskStores:
        stores = self._open.get(task)
        if stores is None:
            image = self._images[task]
            builders = self._builders[task.subtopology]
            stores = open_image(Path(image.folder), {name: builders[name] for name in image.layouts})
            self._open[task] = stores
        return stores

    def _keep(self) -> None:
        while not self._closed.is_set():
            for point in self._points:
                with suppress(OSError):  # it is removed, which the next question says; or the disk is full for now
                    renew(point)
            self._closed.wait(LEASE_S / 4)
