"""The stacks of an actor's process: by py-spy, or by a thread of its own."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from penstock.actors.flame import Flame, FlameRefused
from penstock.actors.process import flames
from penstock.actors.process.flames import OTHER, Flames, Stacks, by_py_spy, find_py_spy, folded, parsed
from penstock.actors.process.frame_names import FrameNames, owner_of
from tests.waiting import PATIENCE_S


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock: no time passes even if this process has to wait for the processor."""
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)


def frame_of(depth: int) -> FrameType:
    """Returns a frame that lies ``depth`` calls below this one."""
    return frame_of(depth - 1) if depth else sys._getframe()


def test_a_stack_begins_with_the_thread_and_ends_with_the_innermost_frame() -> None:
    stack = folded("stream-loop", frame_of(1), FrameNames())
    assert stack[0] == "stream-loop"
    assert [each.split(" ")[0] for each in stack[-3:]] == [
        "test_a_stack_begins_with_the_thread_and_ends_with_the_innermost_frame", "frame_of", "frame_of",
    ]  # fmt: skip
    assert "(tests/actors/test_flames.py:" in stack[-1]


def test_of_a_deep_stack_the_innermost_frames_are_kept() -> None:
    stack = folded("a", frame_of(300), FrameNames())
    assert len(stack) == 101
    assert all(each.startswith("frame_of") for each in stack[1:])


def test_only_so_many_different_stacks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flames, "_MOST_STACKS", 2)
    counted = Stacks()
    for stack in (("a",), ("b",), ("a",), ("c",), ("d",)):
        counted.add(stack)
    assert counted.most_common() == ((("a",), 2), (OTHER, 2), (("b",), 1))
    assert counted.samples == 5


@pytest.mark.usefixtures("stopped_clock")
def test_without_py_spy_a_thread_looks_and_the_answer_tells_what_that_means() -> None:
    looked: list[float] = []
    frames = {1: frame_of(1), threading.get_ident(): sys._getframe()}
    taken = Flames(looks=lambda: frames, py_spy=lambda: None, sleep=looked.append).take(0.5)
    assert isinstance(taken, Flame)
    assert looked == [0.01] * 50
    ((stack, count),) = taken.stacks
    assert (count, taken.samples, taken.sampler) == (50, 50, "penstock"), "its own thread is not counted"
    assert stack[0] == "thread"
    assert taken.note is not None
    assert "py-spy is not installed" in taken.note


@pytest.mark.usefixtures("stopped_clock")
def test_a_second_request_is_refused_and_the_next_one_is_not() -> None:
    entered, leave = threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        entered.set()
        assert leave.wait(PATIENCE_S)

    taking, taken = Flames(py_spy=lambda: None, sleep=sleep), []
    thread = threading.Thread(target=lambda: taken.append(taking.take(10.0)))
    thread.start()
    assert entered.wait(PATIENCE_S)
    refused = taking.take(5.0)
    assert isinstance(refused, FlameRefused)
    assert 0 < refused.again_s <= 10
    leave.set()
    thread.join(PATIENCE_S)
    assert isinstance(taken[0], Flame)
    assert isinstance(taking.take(0.01), Flame)


@pytest.mark.usefixtures("stopped_clock")
def test_it_looks_ten_seconds_at_most() -> None:
    looked: list[float] = []
    Flames(looks=dict, py_spy=lambda: None, sleep=looked.append).take(1e9)
    assert len(looked) == 1000


def program(folder: Path, script: str) -> str:
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_files_have_the_names_by_which_they_are_imported_and_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/srv", "/srv/shop/", "/venv/lib/python3.11/site-packages"])
    names = FrameNames()
    assert names.name("price", "/srv/shop/orders/prices.py", 12) == "price (orders/prices.py:12)"
    assert names.name("call", "/venv/lib/python3.11/site-packages/requests/api.py", 3) == "call (requests/api.py:3)"
    assert names.name("main", "/elsewhere/a/b/c/main.py", 1) == "main (b/c/main.py:1)"
    assert names.owners == {"orders/prices.py": "program", "requests/api.py": "package", "b/c/main.py": "program"}
    long = names.name("f" * 5_000, "/srv/shop/" + "d/" * 5_000 + "end.py", 99_999)
    assert len(long) < 400
    assert long.endswith("end.py:99999)")


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        (flames.__file__, "penstock"),
        (json.__file__, "python"),
        (pytest.__file__, "package"),
        ("<frozen importlib._bootstrap>", "python"),
        ("<string>", "python"),
        ("<stdin>", "program"),
        ("/tmp/ipykernel_7/1234.py", "program"),
        (__file__, "program"),
    ],
)
def test_the_path_of_a_file_tells_whose_it_is(file: str, owner: str) -> None:
    assert owner_of(file) == owner


def test_py_spys_folded_lines_become_stacks(tmp_path: Path) -> None:
    own = threading.get_native_id()
    (tmp_path / "lines").write_text(
        "py-spy> Sampling process\n"
        "thread (11): stream;run (/x/a.py:3);f (/x/b c.py:4) 12\n"
        f"thread ({own}): MainThread;take (c.py:5) 9\n"
        "thread (0x2);g (native) 3\n"
    )
    taken = by_py_spy(program(tmp_path, f"cat {tmp_path}/lines"), 1.0)
    assert taken.stacks == ((("stream", "run (x/a.py:3)", "f (x/b c.py:4)"), 12), (("thread (0x2)", "g (native)"), 3))
    assert taken.files == {"x/a.py": "program", "x/b c.py": "program"}
    assert (taken.samples, taken.sampler, taken.note) == (15, "py-spy", None)


@pytest.mark.parametrize(("seconds", "whole"), [(0.3, 1), (9.6, 10)])
def test_py_spy_is_asked_for_whole_seconds(seconds: float, whole: int, tmp_path: Path) -> None:
    taken = by_py_spy(program(tmp_path, 'echo "main;asked for $9 ${10} ${11} ${12} 1"'), seconds)
    (((_, asked), _),) = taken.stacks
    assert f"--duration {whole}" in asked
    assert 0 < taken.seconds < 60


def test_py_spy_is_looked_for_beside_the_interpreter_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_py_spy() is None
    on_path = program(tmp_path, "exit 0")
    assert find_py_spy() == on_path
    assert find_py_spy() != (beside := program(tmp_path / "venv", "exit 0"))
    assert find_py_spy() == beside


def test_py_spy_sees_threads_by_name_asleep_or_not() -> None:
    installed = find_py_spy()
    if installed is None:
        pytest.skip("py-spy is not installed")
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait, name="asleep"), threading.Thread(target=_spin_until, args=(ended,))]
    for thread in threads:
        thread.start()
    try:
        taken = by_py_spy(installed, 1.0)
    except ValueError as refused:
        pytest.skip(f"py-spy may not look here: {refused}")
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    seen: dict[str, str] = {}
    for stack, _ in taken.stacks:  # a sample may also show a thread on its way there
        seen[stack[0]] = seen.get(stack[0], "") + " ".join(stack)
    assert "wait (threading.py:" in seen["asleep"]
    assert "_spin_until (" in seen[threads[1].name]
    assert threading.current_thread().name not in seen


def _spin_until(ended: threading.Event) -> None:
    while not ended.is_set():
        pass


def test_a_process_that_gives_the_interpreter_late_is_not_looked_at_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looked = [100.0], []

    def sleep(seconds: float) -> None:
        looked.append(seconds)
        now_s[0] += 0.1

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    taken = Flames(looks=dict, py_spy=lambda: None, sleep=sleep).take(1.05)
    assert len(looked) == 11
    assert isinstance(taken, Flame)
    assert round(taken.seconds, 3) == 1.1


@pytest.mark.parametrize("script", ["echo 'Permission Denied: maybe as root' >&2; exit 1", "exit 3"])
def test_if_py_spy_may_not_look_the_thread_does(tmp_path: Path, script: str) -> None:
    taking = Flames(looks=dict, py_spy=lambda: program(tmp_path, script), sleep=lambda seconds: None)
    taken = taking.take(0.1)
    assert isinstance(taken, Flame)
    assert taken.sampler == "penstock"
    assert taken.note is not None
    assert taken.note.startswith("py-spy cannot look at the process (")


def test_lines_without_a_count_are_no_stacks() -> None:
    wanted: Any = [(("a", "b"), 2)]
    assert list(parsed(["", "a;b", "a;b x", "Wrote 12", "a;b 2"])) == wanted
