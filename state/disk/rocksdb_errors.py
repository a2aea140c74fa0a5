"""Errors about a database on disk: their causes, and what to do."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name

from penstock.common.errors import StateStoreCorruptError, StateStoreDiskError, StateStoreError, StateStoreLockedError
from penstock.state.disk.directory_lock import OPEN_ELSEWHERE

_CORRUPT = "CORRUPT"
_DELETE = "delete the directory while the application is stopped; it is then restored from the changelog"


def translated(error: Exception, what: str) -> StateStoreError:
    """Returns the error for one of rocksdict's, which differ only by their text."""
    text = str(error)
    if "lock hold by current process" in text or "While lock file" in text:
        return StateStoreLockedError(f"{what} is locked: {OPEN_ELSEWHERE} [{text}]")
    if "No space left" in text or "quota exceeded" in text:
        return StateStoreDiskError(
            f"{what} cannot be written: no space left on the device. Make room, then start again: what a commit could "
            f"not write is restored from the changelog [{text}; host {host_name()}]"
        )
    if "Read-only file system" in text or "Input/output error" in text:
        return StateStoreDiskError(
            f"{what} cannot be used: its disk is read-only or has errors. Repair it, then start again: what a commit "
            f"could not write is restored from the changelog [{text}; host {host_name()}]"
        )
    # Nothing else is taken for corruption, as what is corrupt may be deleted. "No such file" and "Invalid argument"
    # may also come from a lost mount, a moved directory or a wrong option.
    if text.startswith("Corruption"):
        return StateStoreCorruptError(f"{what} is corrupt: wipe it, or {_DELETE} [{text}]")
    return StateStoreError(
        f"{what} cannot be used, and nothing was deleted: check that the directory exists, that its disk is mounted, "
        f"and that this user owns it, then start again [{text}]"
    )


@dataclass(frozen=True)
class Errors:
    """Error texts about one database, whose rows are all ``restorable`` from changelogs, or not."""

    path: Path
    restorable: bool

    def noted(self, error: Exception, what: str) -> StateStoreError:
        """Like :func:`translated`, but also notes corruption in the directory: RocksDB finds it only when it reads the
        rows concerned, and would open the database again as if nothing were wrong."""
        found = translated(error, what)
        if isinstance(found, StateStoreCorruptError) and self.restorable:
            found.restorable = True
            with suppress(OSError):  # it is corrupt, even if there is no room to note that
                (self.path / _CORRUPT).touch()
        return found


def require_sound(path: Path) -> None:
    """Raise StateStoreCorruptError if ``path`` was found corrupt before, or holds rows, but not the files by which
    RocksDB finds them: it would take it for a new database, or report a file that is not there."""
    if (path / _CORRUPT).exists():
        raise StateStoreCorruptError(f"the stores in {path} are corrupt: an earlier read has found that")
    if not (path / "CURRENT").exists():
        if any(path.glob("*.sst")) or any(log.stat().st_size for log in path.glob("*.log")):
            raise StateStoreCorruptError(
                f"the stores in {path} are corrupt: there are rows, but the file CURRENT is missing; {_DELETE}"
            )
        return
    manifest = (path / "CURRENT").read_text(errors="replace").strip()
    if manifest.startswith("MANIFEST-") and not (path / manifest).exists():
        raise StateStoreCorruptError(
            f"the stores in {path} are corrupt: the file CURRENT names {manifest}, which is missing; {_DELETE}"
        )
