"""``print``: each record as a line of standard output or of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TextIO

from penstock.tasks.closures import closure_of
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.process import Print


class Printer:
    """The output of a node that prints: opens its file when its task begins, and closes it at the end."""

    def __init__(self, name: str, path: str | None) -> None:
        self.name = name
        self.processor = self
        self.context = None
        self._path = path
        self._file: TextIO | None = None

    def init(self, context: None) -> None:
        """Open the file, to append to it: other tasks print there, too."""
        if self._path is not None:
            self._file = Path(self._path).open("a", encoding="utf-8")  # noqa: SIM115  # close() does

    def print(self, line: str) -> None:
        """Write ``line`` and flush it."""
        # The program may replace sys.stdout while it runs.
        file = self._file or sys.stdout
        file.write(f"{line}\n")
        file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@closure_of(Print)
def _print(spec: Print, wiring: Wiring) -> StreamEdge:
    printer = Printer(wiring.name, spec.path)
    wiring.processors.append(printer)
    line, label, mapper = printer.print, spec.label, spec.mapper
    failed, name = wiring.failed, wiring.name

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            line(f"[{label}]: {mapper(key, value)}")
        except Exception as error:
            failed(error, name, key, value, timestamp)

    return run
