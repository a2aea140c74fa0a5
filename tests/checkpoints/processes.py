"""Processes over one object storage, of which each waits before every operation until the test lets it go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any, Generic, Literal, TypeVar

from penstock.common.errors import ObjectStoreError
from penstock.objects.contracts import ObjectInfo, ObjectStore
from tests.waiting import PATIENCE_S

R = TypeVar("R")
Fault = Literal["", "killed", "not done", "done, and the answer lost"]


class Killed(BaseException):
    """The process was killed before its next operation."""


class Gate:
    """Where the process that runs now waits before each of its operations."""

    def __init__(self) -> None:
        self.fault: Fault = ""
        self.next_operation = ""
        self.go = Semaphore(0)
        self.parked = Semaphore(0)

    def wait(self, operation: str) -> Fault:
        """Wait until the process may do ``operation``; returns the fault that it meets then."""
        self.next_operation = operation
        self.parked.release()
        self.go.acquire()
        if self.fault == "killed":
            raise Killed
        fault, self.fault = self.fault, ""
        return fault


class Process(Generic[R]):
    """One call in a thread of its own. The thread runs only while :meth:`step` waits for it: nothing is left to chance.
    ``gate``: that of the objects that the call uses."""

    def __init__(self, name: str, gate: Gate, call: Callable[[], R]) -> None:
        self.name = name
        self.result: R | None = None
        self.error: Exception | None = None
        self.ended = False
        self._gate = gate
        self._call = call
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        self._await_parked()

    @property
    def next_operation(self) -> str:
        """The operation that it does in the next step."""
        return self._gate.next_operation

    def step(self, fault: Fault = "") -> None:
        """Let it do one operation on the storage, and all that follows up to the next one."""
        self._gate.fault = fault
        self._gate.go.release()
        self._await_parked()

    def finish(self) -> None:
        """Let it go on to its end."""
        while not self.ended:
            self.step()

    def kill(self) -> None:
        """End it before its next operation."""
        while not self.ended:
            self.step("killed")
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Killed:
            pass
        except Exception as error:  # the test looks at it
            self.error = error
        finally:
            self.ended = True
            self._gate.parked.release()

    def _await_parked(self) -> None:
        assert self._gate.parked.acquire(timeout=PATIENCE_S), f"{self.name} does not come to its next operation"


class SteppedObjects:
    """``objects``, each of whose operations waits at ``gate``."""

    def __init__(self, objects: ObjectStore, gate: Gate) -> None:
        self._objects = objects
        self._gate = gate
        self.url = objects.url

    def read(self, name: str) -> bytes:
        content: bytes = self._do("read", name)
        return content

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        content: bytes = self._do("read_range", name, begin, end)
        return content

    def create(self, name: str, content: bytes) -> None:
        self._do("create", name, content)

    def put(self, name: str, content: bytes) -> None:
        self._do("put", name, content)

    def upload(self, name: str, file: Path) -> None:
        self._do("upload", name, file)

    def download(self, name: str, file: Path) -> None:
        self._do("download", name, file)

    def info(self, name: str) -> ObjectInfo | None:
        info: ObjectInfo | None = self._do("info", name)
        return info

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        listed: Iterator[ObjectInfo] = self._do("list", prefix, after)
        return listed

    def delete(self, names: Iterable[str]) -> None:
        for name in names:  # a call with many names is not atomic
            self._do("delete", [name])

    def _do(self, operation: str, *arguments: Any) -> Any:
        fault = self._gate.wait(f"{operation} {arguments[0]}")
        if fault == "not done":
            raise ObjectStoreError(f"cannot {operation} {arguments[0]}: the storage does not answer")
        result = getattr(self._objects, operation)(*arguments)
        if fault:
            raise ObjectStoreError(f"cannot {operation} {arguments[0]}: no answer, but it is done")
        return result
