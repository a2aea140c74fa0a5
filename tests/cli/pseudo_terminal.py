"""A process on a terminal of its own, and what the terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_S

CONTROL_C = b"\x03"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class OnTerminal:
    """A process whose three standard streams are a terminal, 160 columns wide."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._written = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return  # Linux's way to say that the other side is closed
            if not data:
                return
            self._written += data

    @property
    def raw(self) -> str:
        """All that was written."""
        return self._written.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        """The lines of the output without colours and cursor movements, frame after frame."""
        return [line.rstrip() for line in re.split(r"[\r\n]+", _ESCAPES.sub("", self.raw)) if line.strip()]

    def press(self, keys: bytes) -> None:
        """Types ``keys``: the terminal turns Ctrl-C into SIGINT for all processes in the foreground."""
        os.write(self._master, keys)

    def resize(self, lines: int, columns: int) -> None:
        """Changes the size of the window."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Returns the exit code when everything that was written has been read."""
        code = self.process.wait(timeout_s)
        self._thread.join(PATIENCE_S)
        return code


@contextmanager
def on_terminal(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> Iterator[OnTerminal]:
    """Run Python with ``command`` on a terminal; killed at the end if it is still there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *command], cwd=cwd, env={**env, "TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    it = OnTerminal(process, master)
    try:
        yield it
    finally:
        print("\n".join(it.lines))
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
