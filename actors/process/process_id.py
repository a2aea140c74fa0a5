"""The id of this Ray cluster among those that work for one application.

Each cluster is a static member of its own in the consumer group, with transactions of its own. As in Kafka Streams the
id is kept in the state directory: a start after a crash takes the place of the same static member at once.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from penstock.actors.process import ray_kv
from penstock.actors.task_host.state_home import PROCESS_ID_FILE
from penstock.common.files import write_whole


def find_process_id(application_id: str) -> str | None:
    """Returns the id of this Ray cluster for the application; None if it has never worked for it."""
    kept = ray_kv.get(_key(application_id))
    return None if kept is None else kept.decode()


def process_id(application_id: str, state_dir: Path) -> str:
    """Returns the id of this Ray cluster for the application. A cluster without one takes the id that an earlier
    cluster has left in ``state_dir`` on this node, or else a new one. Raises OSError when it cannot be written
    there."""
    if (known := find_process_id(application_id)) is not None:
        return known
    mine = _of_this_node(state_dir / application_id)
    ray_kv.put(_key(application_id), mine, overwrite=False)
    return find_process_id(application_id) or mine


def _of_this_node(home: Path) -> str:
    file = home / PROCESS_ID_FILE
    if file.exists() and (kept := file.read_text().strip()):
        return kept
    home.mkdir(parents=True, exist_ok=True)
    write_whole(file, f"{uuid.uuid4().hex[:8]}\n")
    return file.read_text().strip()


def _key(application_id: str) -> str:
    return f"process/{application_id}"
