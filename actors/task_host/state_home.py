"""Notes in a file to which application the local state below ``state.dir/<application.id>`` belongs, and its format.

Kafka Streams keeps ``kafka-streams-process-metadata`` there. Without the note, a directory that was copied to another
application's name would be taken for the state of that application, and one of a newer version could not be read.
"""

from __future__ import annotations

import json
from pathlib import Path

from penstock.common.errors import StateStoreError
from penstock.common.files import write_whole

OWNER_FILE = "penstock-state.json"
PROCESS_ID_FILE = "process-id"
"""A file in the same directory: see :mod:`penstock.actors.process.process_id`."""
RUNS_IN_FILE = "coordinator.runs-in"
"""A file that names the Ray cluster whose coordinator holds the lock in the same directory."""
_FORMAT = 1
"""Format of the directory's content. A version whose changes an older version cannot read adds 1."""


def claim(home: Path) -> None:
    """Note that ``home`` belongs to its application, unless that is noted already. Raises StateStoreError if it belongs
    to another application, or to a newer version; then nothing is changed."""
    file = home / OWNER_FILE
    try:
        text = file.read_text()
    except FileNotFoundError:
        home.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"application.id": home.name, "format": _FORMAT}) + "\n")
        return
    try:
        record = json.loads(text)
        owner, version = str(record["application.id"]), int(record["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateStoreError(
            f"the state directory {home} cannot be used: {file} does not name its application [{text[:200]!r}]. If the "
            f"directory belongs to application {home.name!r}, delete that file; else move the directory away. Nothing "
            "was deleted"
        ) from error
    if owner != home.name:
        raise StateStoreError(
            f"the state directory {home} belongs to application {owner!r}, not to {home.name!r}: move it back, or "
            "delete it, so that the state is restored from this application's changelogs. Nothing was deleted"
        )
    if version > _FORMAT:
        raise StateStoreError(
            f"the state directory {home} was written by a newer version of penstock (format {version}, this one knows "
            f"{_FORMAT}): start that version, or delete the directory, so that the state is restored from the "
            "changelogs. Nothing was deleted"
        )
