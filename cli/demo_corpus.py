"""The demo's input: every line of the Python standard library's own ``.py`` files."""

from __future__ import annotations

import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from penstock.kafka.contracts import RecordProducer

# Installed packages differ from machine to machine, and other processes may change them meanwhile.
_NOT_THE_LIBRARY = frozenset({"site-packages", "dist-packages", "__pycache__"})
_REPORT_EVERY = 2000


def sources() -> Iterator[tuple[str, str]]:
    """Yields each file's path below the library's folder, with its text; bytes that are no UTF-8 are replaced."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if _NOT_THE_LIBRARY.isdisjoint(name.parts):
            yield str(name), path.read_bytes().decode(errors="replace")


def direct_counts(identifiers: Callable[[str], list[str]]) -> Counter[str]:
    """Returns the number of occurrences of each identifier, counted file by file and without penstock."""
    counts: Counter[str] = Counter()
    for _, text in sources():
        counts.update(identifiers(text))
    return counts


def load(
    producer: RecordProducer,
    topic: str,
    sent: Callable[[int], None],
    stopped: Callable[[], bool],
    files: Iterable[tuple[str, str]] | None = None,
) -> int:
    """Write every line to ``topic`` under its file's name, and return how many there are, once the broker has them all.

    ``sent`` is called now and then with the number of lines so far; when ``stopped`` returns True, the writing ends
    early. ``files``: those of :func:`sources` to write, all by default.
    """
    lines = 0
    for name, text in sources() if files is None else files:
        key = name.encode()
        now_ms = time.time_ns() // 1_000_000
        for line in text.splitlines():
            producer.send(topic, key, line.encode(), now_ms)
            lines += 1
            if lines % _REPORT_EVERY == 0:
                producer.poll()
                sent(lines)
        if stopped():
            break
    while not producer.flush(0.5) and not stopped():
        continue
    sent(lines)
    return lines
