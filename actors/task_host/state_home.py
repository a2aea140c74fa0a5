"""Notes in a file whose local state is below ``state.dir/<application.id>``, and in which form.

Kafka Streams keeps ``kafka-streams-process-metadata`` there. A directory that was copied to another application's name
would be taken for state of that one, and one that a newer version has written could not be read.
"""

from __future__ import annotations

import json
from pathlib import Path

from penstock.common.errors import StateStoreError
from penstock.common.files import write_whole

OWNER_FILE = "penstock-state.json"
PROCESS_ID_FILE = "process-id"
"""Beside it: see :mod:`penstock.actors.process.process_id`."""
RUNS_IN_FILE = "coordinator.runs-in"
"""Names the Ray cluster whose coordinator holds the lock beside it."""
_FORMAT = 1
"""Format of the directory's content. A version that changes it so that an older one cannot read it adds 1."""


def claim(home: Path) -> None:
    """Note that ``home`` is its application's, unless that is noted already. Raises StateStoreError if it is another's,
    or of a newer version; nothing is changed then."""
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
            f"the state directory {home} cannot be used: {file} does not say whose it is [{text[:200]!r}]. If the "
            f"directory is of application {home.name!r}, delete that file; else move it away. Nothing was deleted"
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
