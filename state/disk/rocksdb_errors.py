"""Explains in helpful words what has gone wrong with a database."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name

from penstock.common.errors import StateStoreCorruptError, StateStoreDiskError, StateStoreError, StateStoreLockedError

_CORRUPT = "CORRUPT"


def translated(error: Exception, what: str) -> StateStoreError:
    """Returns the error for one of rocksdict's, which differ only by their text."""
    text = str(error)
    if "lock hold by current process" in text or "While lock file" in text:
        return StateStoreLockedError(
            f"{what} is locked: another process, or another task of this one, has it open; two applications may not "
            f"share a state.dir, and a process that is ending lets go in a moment [{text}]"
        )
    if "No space left" in text or "quota exceeded" in text:
        return StateStoreDiskError(
            f"{what} cannot be written: no space left on the device. Make room, then start again: what a commit could "
            f"not write is restored from the changelog [{text}; host {host_name()}]"
        )
    if "Read-only file system" in text or "Input/output error" in text:
        return StateStoreDiskError(
            f"{what} cannot be used: its disk is read-only or has errors. Mend it, then start again: what a commit "
            f"could not write is restored from the changelog [{text}; host {host_name()}]"
        )
    # Nothing else is taken for corruption, for what is corrupt may be deleted: "No such file" and "Invalid argument"
    # are also what a lost mount, a moved directory or an option that does not fit look like.
    if text.startswith("Corruption"):
        return StateStoreCorruptError(
            f"{what} is corrupt: wipe it, or delete the directory while the application is stopped; it is then "
            f"restored from the changelog [{text}]"
        )
    return StateStoreError(
        f"{what} cannot be used, and nothing was deleted: see that the directory and its disk are there and belong to "
        f"this user, then start again [{text}]"
    )


@dataclass(frozen=True)
class Errors:
    """Error texts about one database, whose rows are all ``restorable`` from changelogs, or not."""

    path: Path
    restorable: bool

    def noted(self, error: Exception, what: str) -> StateStoreError:
        """Like :func:`translated`, but also notes corruption beside the rows: RocksDB finds it only where it reads, and
        would open the database again as if nothing were wrong."""
        found = translated(error, what)
        if isinstance(found, StateStoreCorruptError) and self.restorable:
            found.restorable = True
            with suppress(OSError):  # it is corrupt, whether there is room to note that or not
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
                f"the stores in {path} are corrupt: there are rows, but the file CURRENT is missing; delete the "
                "directory while the application is stopped, it is then restored from the changelog"
            )
        return
    manifest = (path / "CURRENT").read_text(errors="replace").strip()
    if manifest.startswith("MANIFEST-") and not (path / manifest).exists():
        raise StateStoreCorruptError(
            f"the stores in {path} are corrupt: the file CURRENT names {manifest}, which is missing; delete the "
            "directory while the application is stopped, it is then restored from the changelog"
        )
