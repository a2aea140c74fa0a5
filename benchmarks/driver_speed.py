"""Measures how fast ``TopologyTestDriver`` counts words, by itself: ``python -m benchmarks.driver_speed``; ``run.py``
calls it too."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

import penstock as ps
from benchmarks.report import Grid, Spread, exit_if_wrong, to_terminal

WORDS_PER_LINE = (1, 5)
KEYS = 10_000
RECORDS = 50_000
_STRING, _LONG = ps.Serdes.string(), ps.Serdes.long()


@dataclass(frozen=True)
class DriverRun:
    """One pass, by the wall clock. A record of the input is a line; each word is a record of the repartition topic."""

    words_per_line: int
    lines_per_second: float

    @property
    def words_per_second(self) -> float:
        """Records that are counted per second."""
        return self.lines_per_second * self.words_per_line


def word_count() -> ps.Topology:
    """Returns the word count of the README."""
    builder = ps.StreamsBuilder()
    (
        builder.stream("lines", ps.Consumed.with_(_STRING, _STRING))
        .flat_map_values(lambda line: line.split())
        .group_by(lambda key, word: word, ps.Grouped.with_(_STRING, _STRING))
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("counts-of-words", ps.Produced.with_(_STRING, _LONG))
    )
    return builder.build()


def measure(repeat: int, words: int = RECORDS) -> tuple[list[DriverRun], list[str]]:
    """Run passes of ``words`` words each. Returns the runs, and how outputs were wrong."""
    runs, wrong = [], []
    for _ in range(repeat):
        for words_per_line in WORDS_PER_LINE:
            run, right = _run(words_per_line, words // words_per_line)
            runs.append(run)
            if not right:
                wrong.append(f"TopologyTestDriver, {words_per_line} words per line: the counts are wrong")
    return runs, wrong


def _run(words_per_line: int, lines: int) -> tuple[DriverRun, bool]:
    choose = random.Random(7)
    vocabulary = [f"word-{number}" for number in range(KEYS)]
    chosen = [choose.choices(vocabulary, k=words_per_line) for _ in range(lines)]
    texts = [" ".join(words) for words in chosen]
    with ps.TopologyTestDriver(word_count()) as driver:
        input_topic = driver.create_input_topic("lines", _STRING, _STRING)
        output = driver.create_output_topic("counts-of-words", _STRING, _LONG)
        begin = time.perf_counter()
        for text in texts:
            input_topic.pipe_input(None, text)
        took_s = time.perf_counter() - begin
        final = dict(output.read_key_values_to_list())
    return DriverRun(words_per_line, lines / took_s), final == Counter(word for words in chosen for word in words)


def table(runs: list[DriverRun]) -> Grid:
    """Returns a row per length of the lines: medians of the runs, with their range."""
    rows = []
    for words_per_line in WORDS_PER_LINE:
        alike = [run for run in runs if run.words_per_line == words_per_line]
        lines, words = (
            [getattr(run, name) / 1e3 for run in alike] for name in ("lines_per_second", "words_per_second")
        )
        rows.append([str(words_per_line), Spread.of(lines).text(".1f"), Spread.of(words).text(".1f")])
    return ("words per line", "k lines/s", "k words/s"), rows


def main(repeat: Annotated[int, typer.Option(min=1, help="Number of runs.")] = 3) -> None:
    """Measure nothing but the driver. Exit code 1 when its output is wrong."""
    console = Console()
    runs, wrong = measure(repeat)
    to_terminal(console, "TopologyTestDriver, word count", table(runs))
    exit_if_wrong(console, wrong)


if __name__ == "__main__":
    typer.run(main)
