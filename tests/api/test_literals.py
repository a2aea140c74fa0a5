"""Bodies list the values of enumerations again, since the OpenAPI document needs them: they must be the same."""

from __future__ import annotations

from enum import Enum
from typing import get_args

import pytest
from pydantic import BaseModel

from penstock.api import schemas
from penstock.api.page import history_bodies, live_bodies, record_bodies, rollout_bodies
from penstock.cluster.application_history import EventKind, EventLevel
from penstock.cluster.findings import Level
from penstock.cluster.programs.deploy_plan import Fate
from penstock.cluster.read_side import SILENT, WAITING, RolloutPhase, TaskState
from penstock.cluster.record_side import Form


@pytest.mark.parametrize(
    ("body", "field", "kind", "more"),
    [
        (history_bodies.EventBody, "kind", EventKind, ()),
        (history_bodies.EventBody, "level", EventLevel, ()),
        (schemas.FindingBody, "level", Level, ()),
        (schemas.RolloutBody, "phase", RolloutPhase, ()),
        (rollout_bodies.ChangeBody, "fate", Fate, ()),
        (live_bodies.LiveTask, "state", TaskState, (WAITING, SILENT)),
        (record_bodies.ShownBody, "form", Form, ()),
    ],
)
def test_a_body_has_all_values_of_the_enumeration(
    body: type[BaseModel], field: str, kind: type[Enum], more: tuple[str, ...]
) -> None:
    listed = get_args(body.model_fields[field].annotation)
    assert set(listed) == {*(each.value for each in kind), *more}
