"""Passing a program of any size to its coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client import starting
from penstock.common.config import StreamsConfig

OBJECT_STORE_FROM_BYTES = 100 * 1024
"""Ray's ``max_direct_call_object_size``: an argument of this size lives as long as the process that called."""


def large_program() -> ApplicationSpec:
    builder = ps.StreamsBuilder()
    table = "x" * 300_000
    builder.stream("in").map_values(lambda value: table).to("out")
    return ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "large"}))


def test_a_coordinator_is_given_a_large_program_in_pieces_that_outlive_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[Any] = []

    class Remote:
        def options(self, **options: Any) -> Remote:
            return self

        def remote(self, *arguments: Any) -> Any:
            called.extend(arguments)
            return SimpleNamespace(
                ready=SimpleNamespace(remote=lambda: None),
                set_http_address=SimpleNamespace(remote=lambda address: None),
            )

    monkeypatch.setattr(ray, "remote", lambda cls: Remote())
    monkeypatch.setattr(ray, "get", lambda answer, timeout: None)
    starting.start_coordinator(large_program())
    name, *pieces = called
    assert name == "large"
    assert max(map(len, pieces)) < OBJECT_STORE_FROM_BYTES < sum(map(len, pieces))
    spec: ApplicationSpec = cloudpickle.loads(b"".join(pieces))
    assert spec.application_id == "large"


def test_a_program_that_is_too_large_even_in_pieces_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Ray inlines up to 10 MiB of the arguments of a call (``task_rpc_inlined_bytes_limit``)."""
    starting._pieces(bytes(9 << 20))
    assert "program" not in capsys.readouterr().err
    starting._pieces(bytes((9 << 20) + 1))
    assert "Ray keeps it with this process" in capsys.readouterr().err
