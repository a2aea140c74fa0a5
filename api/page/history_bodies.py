"""The bodies of the last hour."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.schemas import BodyModel, FindingBody

_Series = list[float | None]


class ApplicationSeries(BodyModel):
    """The figures of all tasks together."""

    records_per_s: _Series
    lag: _Series
    behind_s: _Series = Field(description="That of the task that is furthest behind.")
    commits_per_s: _Series
    restoring: _Series = Field(description="Number of tasks that restore.")
    dead_letters: _Series = Field(description="Number of dead letters in the step.")


class TaskSeries(BodyModel):
    """The figures of one task."""

    records_per_s: _Series
    behind_s: _Series
    busy: _Series = Field(description="Share of its actor's time, from 0 to 1.")
    actor: list[int | None] = Field(description="Index of its actor in ``actors``; null without one.")
    state: list[int | None] = Field(description="Index of its state in ``states``.")


class OperatorSeries(BodyModel):
    """The figures of one operator, all tasks together."""

    records_per_s: _Series = Field(description="The records that enter it.")
    busy: _Series = Field(description="Share of an actor's time, from 0 to 1, of the actor of which it takes most.")


class TopicSeries(BodyModel):
    """The figures of one topic."""

    records_in_per_s: _Series = Field(description="The records that the application reads.")
    records_out_per_s: _Series = Field(description="The records that it writes.")


class SamplesBody(BodyModel):
    """Series of equal length. A step without a sample, and a figure that was not known, is null."""

    application: ApplicationSeries
    actors: list[str]
    states: list[str]
    tasks: dict[str, TaskSeries]
    operators: dict[str, OperatorSeries]
    topics: dict[str, TopicSeries]
    findings: list[FindingBody | None] = Field(description="The worst finding of each step.")


class EventBody(BodyModel):
    """An event, or some equal ones."""

    at_ms: int
    until_ms: int = Field(description="Time of the last of them.")
    times: int
    kind: Literal["state", "group", "move", "restore", "actor", "rollout", "pause", "scale", "log"]
    level: Literal["info", "warning", "error"]
    actor_id: str | None
    task_id: str | None
    sentence: str
    page: str | None = Field(description="The section of ``docs/`` that explains a line of the log. Null if none does.")


class HistoryBody(BodyModel):
    """The last hour, as far as it was asked for. It is lost when the coordinator restarts."""

    step_ms: int = Field(
        description="Milliseconds between two samples: 5,000, and more with more than 300 tasks or so."
    )
    from_ms: int | None = Field(description="Time of the first value of each series. Null without samples.")
    began_ms: int = Field(description="Time at which the history began.")
    samples: SamplesBody
    events: list[EventBody]
