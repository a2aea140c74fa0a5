"""A program whose processes are killed in a backfill, in a module of its own: Spark's workers import it."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import penstock as ps
from penstock.pipeline.task_hosts import checkpoints
from tests.pipeline import killed_driver

TEXT, LONG = ps.Serdes.string(), ps.Serdes.long()


def _note(folder: str, call: str) -> None:
    with Path(folder, f"{call}-{os.getpid()}").open("a") as file:
        file.write("x")


def _first(folder: str, key: str | None, line: str) -> tuple[str, str]:
    """Called once for each line, in stage 1."""
    _note(folder, "first")
    return line.split()[0], line


def _second(folder: str, count: int) -> int:
    """Called in stage 2: kills a process, or waits until it is killed, if the test has ordered that; once."""
    _note(folder, "second")
    order = Path(folder, "order")
    try:
        wanted = order.read_text()
        order.rename(Path(folder, "done"))
    except FileNotFoundError:
        return count
    if wanted == "worker":
        psutil.Process().kill()
    elif wanted in ("upload", "uploaded"):
        _die_around_an_upload(wanted == "upload")
    elif wanted == "executor":
        next(each for each in psutil.Process().parents() if "java" in each.name()).kill()
    else:
        signal.pause()
    return count


def _die_around_an_upload(before: bool) -> None:
    """Let this worker die when it uploads the stores of a task."""
    upload = vars(checkpoints)["upload_handed_over"]

    def dying(*given: Any) -> None:
        if not before:
            upload(*given)
        psutil.Process().kill()

    vars(checkpoints)["upload_handed_over"] = dying


def app_of(folder: str, lines: str, broker: str) -> ps.KafkaStreams:
    """The application: the number of lines by their first word."""
    builder = ps.StreamsBuilder()
    read = builder.stream(lines, ps.Consumed.with_(TEXT, TEXT)).map(partial(_first, folder))
    counts = read.group_by_key(ps.Grouped.with_(TEXT, TEXT)).count(ps.Materialized.as_("counts"))
    counts.to_stream().map_values(partial(_second, folder)).to(f"{lines}-out", ps.Produced.with_(TEXT, LONG))
    config = {
        "application.id": lines,
        "bootstrap.servers": broker,
        "state.dir": f"{folder}/state",
        "state.checkpoint.uri": f"{folder}/checkpoints",
    }
    return ps.KafkaStreams(builder.build(), config)


if "KILLED_LINES" in os.environ:
    killed_driver.arm(os.environ["KILLED_FOLDER"])
    app = app_of(os.environ["KILLED_FOLDER"], os.environ["KILLED_LINES"], os.environ["KILLED_BROKER"])
