"""Figures of the benchmarks of the pipeline, each beside its goal, and the section of the page that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.report import PIPELINE_SECTION, Grid, Spread, to_markdown

_LEGEND = """\
Written by `make bench-pipeline`. Figures are the median of the runs, with their range. A ratio compares two runs that
followed one another. "Per CPU second" counts user and system time of all processes except the broker's, from start to
end. Memory is the peak of the resident sets of all of a side's processes together; pages that they share count in
each. The job is `benchmarks/pipeline/job.py`: page views join the profiles of their users and are counted in windows
by region, in sessions and in a table whose rows expire; profiles join plans by foreign key. "Hot" inputs have most
records with few keys (Zipf's law), or in one of four partitions.
"""


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``values``: one for each run. ``form``: a format of Python."""

    part: str
    name: str
    values: tuple[float, ...]
    form: str = ",.0f"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        """The figure that counts."""
        return Spread.of(self.values).median

    @property
    def is_met(self) -> bool:
        """Returns True unless the median misses the goal."""
        return (self.at_least is None or self.median >= self.at_least) and (
            self.at_most is None or self.median <= self.at_most
        )

    @property
    def goal(self) -> str:
        """The goal as text; "–" without one."""
        if self.at_least is not None:
            return f"≥ {self.at_least:{self.form}}"
        return "–" if self.at_most is None else f"≤ {self.at_most:{self.form}}"

    def row(self) -> list[str]:
        """Returns the cells of its row."""
        met = "" if self.goal == "–" else "yes" if self.is_met else "**no**"
        return [self.part, self.name, Spread.of(self.values).text(self.form), self.goal, met]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    """Returns our value over theirs, pair by pair."""
    return tuple(our / their for our, their in zip(ours, theirs, strict=True))


def grid(figures: Iterable[Figure]) -> Grid:
    """Returns all figures as a table."""
    return ("part", "figure", "measured", "goal", "met"), [figure.row() for figure in figures]


def section(figures: Iterable[Figure], where: dict[str, str]) -> str:
    """Returns the section of the page as Markdown."""
    surroundings = "\n".join(f"- {name}: {value}" for name, value in where.items())
    return f"{PIPELINE_SECTION}\n\n{_LEGEND}\n{surroundings}\n\n{to_markdown(grid(figures))}\n"
