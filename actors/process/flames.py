"""Takes the stacks of this process for a flame graph: by py-spy if that is possible, else by a thread that looks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import getpid
from pathlib import Path
from types import FrameType

from penstock.actors.flame import LONGEST_FLAME_S, Flame, FlameRefused
from penstock.actors.process.frame_names import FrameNames

_RATE_HZ = 100
_MOST_STACKS, _DEEPEST, _LONGEST_NAME = 2000, 100, 200
_PY_SPY_ENDS_WITHIN_S = 5.0
OTHER = ("(other stacks)",)
_FRAME = re.compile(r"(.*) \((.+):(\d+)\)")
_THREAD = re.compile(r"thread \((\d+)\)")
_BY_THREAD = (
    "a thread of the process has looked, which it can when another thread lets go of the interpreter: reads, sends and "
    "other waits look larger than they are"
)

Frames = Mapping[int, FrameType]
Stack = tuple[str, ...]


class Flames:
    """The stacks of this process, taken for one caller at a time. ``looks``: the current frame of each thread."""

    def __init__(
        self,
        looks: Callable[[], Frames] = sys._current_frames,
        py_spy: Callable[[], str | None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._looks = looks
        self._py_spy = py_spy or find_py_spy
        self._sleep = sleep
        self._busy = threading.Lock()
        self._ends_s = 0.0

    def take(self, seconds: float) -> Flame | FlameRefused:
        """Take stacks for at most ``LONGEST_FLAME_S``. Blocks meanwhile; for a thread of the caller's."""
        seconds = min(max(seconds, 1 / _RATE_HZ), LONGEST_FLAME_S)
        if not self._busy.acquire(blocking=False):
            return FlameRefused(max(0.0, self._ends_s - time.monotonic()))
        try:
            self._ends_s = time.monotonic() + seconds
            program = self._py_spy()
            if program is None:
                return self._by_thread(seconds, f"py-spy is not installed on the actor's node; {_BY_THREAD}")
            try:
                return by_py_spy(program, seconds)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                return self._by_thread(seconds, f"py-spy cannot look at the process ({error}); {_BY_THREAD}")
        finally:
            self._busy.release()

    def _by_thread(self, seconds: float, note: str) -> Flame:
        counted, frame_names = Stacks(), FrameNames()
        own, begun_s = threading.get_ident(), time.monotonic()
        for _ in range(round(seconds * _RATE_HZ)):
            if time.monotonic() - begun_s >= seconds:  # it gets the interpreter late in a busy process
                break
            self._sleep(1 / _RATE_HZ)
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in self._looks().items():
                if ident != own:
                    counted.add(folded(names.get(ident, "thread"), frame, frame_names))
        took_s = time.monotonic() - begun_s
        return Flame(counted.most_common(), counted.samples, took_s, "penstock", note, frame_names.owners)


class Stacks:
    """Counts stacks; the first 2000 different ones by themselves, the others together."""

    def __init__(self) -> None:
        self.samples = 0
        self._counts: Counter[Stack] = Counter()

    def add(self, stack: Stack, count: int = 1) -> None:
        """Counts ``stack``."""
        self.samples += count
        known = stack in self._counts or len(self._counts) < _MOST_STACKS
        self._counts[stack if known else OTHER] += count

    def most_common(self) -> tuple[tuple[Stack, int], ...]:
        """Returns all stacks with their counts, the most common first."""
        return tuple(self._counts.most_common())


def folded(thread: str, frame: FrameType | None, frame_names: FrameNames) -> Stack:
    """Returns the stack that ends with ``frame``: the thread's name, then the frames, the outermost first. Of a stack
    that is too deep the outermost frames are left out."""
    names: list[str] = []
    while frame is not None and len(names) < _DEEPEST:
        code = frame.f_code
        names.append(frame_names.name(code.co_qualname, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return (thread[:_LONGEST_NAME], *reversed(names))


def find_py_spy() -> str | None:
    """Returns the path of py-spy: beside the interpreter, or on the PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def by_py_spy(program: str, seconds: float) -> Flame:
    """Returns what py-spy has seen, except in this thread. Raises OSError or SubprocessError if it cannot run,
    ValueError if it may not look."""
    whole = max(1, round(seconds))  # py-spy counts whole seconds
    # With idle threads: an operator that sleeps, or waits for another machine, is busy all the same.
    shape = ["--format", "raw", "--output", "/dev/stdout", "--rate", str(_RATE_HZ), "--threads", "--idle",
             "--full-filenames"]  # fmt: skip
    begun_s = time.monotonic()
    run = subprocess.run(
        [program, "record", *shape, "--duration", str(whole), "--pid", str(getpid())],
        capture_output=True, text=True, errors="replace", timeout=whole + _PY_SPY_ENDS_WITHIN_S, check=False,
    )  # fmt: skip
    if run.returncode:
        reason = run.stderr.strip().splitlines()
        raise ValueError(reason[-1][:_LONGEST_NAME] if reason else f"it ended with {run.returncode}")
    counted, frame_names = Stacks(), FrameNames()
    own, threads = (
        str(threading.get_native_id()),
        {str(thread.native_id): thread.name[:_LONGEST_NAME] for thread in threading.enumerate()},
    )
    for (label, *frames), count in parsed(run.stdout.splitlines()):
        # py-spy does not always know the name of a thread.
        native = _THREAD.match(label)
        if native and native[1] == own:
            continue
        thread = threads.get(native[1], label.partition(": ")[2] or label) if native else label
        counted.add((thread, *(_renamed(frame, frame_names) for frame in frames)), count)
    took_s = time.monotonic() - begun_s
    return Flame(counted.most_common(), counted.samples, took_s, "py-spy", files=frame_names.owners)


def _renamed(frame: str, frame_names: FrameNames) -> str:
    """Returns py-spy's name of a frame with the short name of its file."""
    found = _FRAME.fullmatch(frame)
    return frame[:_LONGEST_NAME] if found is None else frame_names.name(found[1], found[2], found[3])


def parsed(lines: Iterable[str]) -> Iterator[tuple[Stack, int]]:
    """Yields the stacks and counts of folded lines, ``thread (0x1f): name;frame;frame 12``. Progress that py-spy prints
    among them has no count."""
    for line in lines:
        frames, _, count = line.rpartition(" ")
        if ";" not in line or not count.isdigit():
            continue
        thread, *names = frames.split(";")
        yield (thread[:_LONGEST_NAME], *names[-_DEEPEST:]), int(count)
