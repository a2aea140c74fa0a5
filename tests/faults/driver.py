"""A driver in a process of its own: ``python -m tests.faults.driver RAY NAME FOLDER CONFIG WORK``.

It starts the application and then obeys lines on its standard input, each of which it answers by one line. The rows in
which Ray itself is hurt may end it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import ray

from penstock.cluster.names import NAMESPACE
from penstock.common.errors import StreamsError
from penstock.testing.chaos.rays_lines import leave_out_rays_lines
from tests.elastic.cluster import SlowCount
from tests.faults.planted import gigabytes, once
from tests.waiting import PATIENCE_S


def message(app: Any) -> dict[str, Any]:
    """Returns what a user sees of the application."""
    try:
        status = app.status()
    except (StreamsError, ray.exceptions.RayError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    actors = {actor.actor_id: actor.pid for actor in status.actors}
    return {"state": status.state.value, "error": status.error, "waiting": status.waiting, "actors": actors}


def main(address: str, name: str, folder: Path, config: dict[str, Any], work: str) -> None:
    works = {"": None, "allocates": once(folder / "armed", gigabytes(2))}
    it = SlowCount(config["bootstrap.servers"], name, folder / "state", 0.0, works[work], **config)
    leave_out_rays_lines()
    ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    it.app.start()
    it.app.wait_until_running(PATIENCE_S)
    print(json.dumps(message(it.app)), flush=True)
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        match line.strip():
            case "status":
                answer = message(it.app)
            case "close":
                answer = {"closed": it.app.close()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])
