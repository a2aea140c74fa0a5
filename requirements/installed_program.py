"""Runs a program with the penstock that is installed: prints its counts, and how many compiled modules there are.

``python requirements/installed_program.py`` fails unless every module of ``pyproject.toml`` is compiled. It tests
wheels where pytest is not installed. It is not in ``tests/``, whose folder ``types`` would hide Python's own ``types``.
"""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import penstock as ps


def counts() -> dict[str | None, int | None]:
    text = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(text, text))
    words = lines.flat_map_values(str.split).group_by(lambda word: word, ps.Grouped.with_(text, text))
    words.count().to_stream().to("counts", ps.Produced.with_(text, ps.Serdes.long()))
    with ps.TopologyTestDriver(builder.build(), {"application.id": "counts"}) as driver:
        driver.create_input_topic("lines", text, text).pipe_input("k", "a b a")
        return driver.create_output_topic("counts", text, ps.Serdes.long()).read_key_values_to_map()


def modules() -> list[str]:
    """Returns the modules of pyproject.toml that are to be compiled."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    named: list[str] = project["tool"]["hatch"]["build"]["hooks"]["custom"]["modules"]
    return [module.replace("/", ".") for module in named]


def compiled() -> list[str]:
    return [module for module in modules() if importlib.util.find_spec(f"penstock.{module}")]


if __name__ == "__main__":
    print(counts(), len(compiled()))
    if absent := sorted({*modules()} - {*compiled()}):
        sys.exit(f"not compiled: {', '.join(absent)}")
