"""Memory that a stream actor has freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.actors.process.allocator import return_large_pieces

# Pieces of 1 MiB, each followed by a smaller one that stays.
PROGRAM = """
import sys
import psutil
from penstock.actors.process.allocator import return_large_pieces
if sys.argv[1] == "return":
    assert return_large_pieces()
first = bytearray(20 << 20)
del first
begin = psutil.Process().memory_info().rss
pieces, small = [], []
for _ in range(100):
    pieces.append(b"x" * (1 << 20))
    small.append(b"x" * 100_000)
del pieces
print(psutil.Process().memory_info().rss - begin)
"""


def kept_bytes(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not return_large_pieces(), reason="the C library is not glibc")
def test_large_pieces_go_back_to_the_system_when_they_are_freed() -> None:
    assert kept_bytes("as it is") > 80 << 20, "glibc keeps them by itself: the setting has no use any more"
    assert kept_bytes("return") < 20 << 20
