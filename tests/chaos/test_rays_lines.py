"""Ray's own lines between those of a harness."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.testing.chaos.rays_lines import leave_out_rays_lines

WORKER: Any = importlib.import_module("ray._private.worker")
OF_RAYLET = {"lines": ["Raylet is terminated."], "pid": "raylet", "is_err": False, "ip": "127.0.0.1"}


@pytest.fixture
def as_ray_has_it() -> Iterator[None]:
    before = WORKER.print_to_stdstream
    yield
    WORKER.print_to_stdstream = before


def listen(errors: int) -> None:
    """Acts as Ray's thread that reports lost processes, for ``errors`` of them."""

    class Subscriber:
        left = errors

        def subscribe(self) -> None:
            pass

        def poll(self) -> tuple[None, dict[str, Any]]:
            if not self.left:
                raise ConnectionError("enough")
            self.left -= 1
            return None, {"job_id": None, "error_message": "Raylet is terminated."}

    class Worker:
        gcs_error_subscriber = Subscriber()
        current_job_id = importlib.import_module("ray").JobID.nil()

    WORKER.listen_error_messages(Worker(), importlib.import_module("threading").Event())


def test_ray_prints_what_became_of_its_processes_unless_it_is_kept_from_it(
    as_ray_has_it: None, capsys: pytest.CaptureFixture[str]
) -> None:
    listen(1)
    assert "Raylet is terminated" in capsys.readouterr().out, "nothing needs to be kept from Ray any more"
    leave_out_rays_lines()
    listen(1)
    assert capsys.readouterr().out == ""
