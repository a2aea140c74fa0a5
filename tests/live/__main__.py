"""``python -m tests.live``: all parity cases live and backfilled; ends with the table of docs/PARITY.md.

Spark hands over each application in one of eight ways (from Kafka or an archive, by changelogs or checkpoints, on one
or four partitions): with eight values of ``--seed`` in all.

``--only`` plays some shapes (``windowed``) or applications (``bunch-3``), so that a long run can be cut; ``--keep``
adds what was found to a file, and the table is of all that it has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import ray

from penstock.kafka.local_broker.broker import LocalBroker
from tests.live.bunches import Bunch, bunches, shape_of
from tests.live.play import Outcome, excluded, play, play_with_caches
from tests.live.shapes import every_shape
from tests.live.table import table

Play = Callable[[Bunch, str, str, Path], Outcome]
MOST_SHOWN = 3


def main() -> None:
    """Play, and end with 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.live", description=__doc__)
    parser.add_argument("--how", choices=("live", "cached", "backfilled", "all"), default="all")
    parser.add_argument(
        "--only", type=lambda names: names.split(","), default=[], help="shapes or bunches, with commas"
    )
    parser.add_argument("--size", type=int, default=50, help="how many cases an application has at most")
    parser.add_argument("--seed", type=int, default=0, help="where Spark ends, and how it hands over")
    parser.add_argument("--keep", type=Path, help="a file of results to add to")
    given = parser.parse_args()
    results = [] if given.keep is None or not given.keep.exists() else list(map(json.loads, given.keep.open()))
    with tempfile.TemporaryDirectory() as folder, _hosts(Path(folder), given.how, given.seed) as (broker, ways):
        for how, play_one, why_not in ways:
            for result in _played(how, play_one, why_not, given, broker, Path(folder)):
                results.append(result)
                if given.keep is not None:
                    with given.keep.open("a") as file:
                        file.write(json.dumps(result) + "\n")
    print(table(results))
    sys.exit(any(result["differ"] for result in results))


def _played(
    how: str, play_one: Play, why_not: Callable[[dict[str, Any]], str | None], given: Any, broker: str, folder: Path
) -> Iterator[dict[str, Any]]:
    every = every_shape()
    shapes = set(given.only) & every.keys()
    cases = [case for shape, alike in every.items() if not shapes or shape in shapes for case in alike]
    numbers = set(given.only) - shapes
    left_out = Counter((shape_of(case), reason) for case in cases if (reason := why_not(case)) is not None)
    for bunch in bunches([case for case in cases if why_not(case) is None], given.size):
        if numbers and bunch.name not in numbers:
            continue
        begun = monotonic()
        outcome = play_one(bunch, broker, f"{how}-{bunch.name}", folder / how / bunch.name)
        seconds = monotonic() - begun
        for name, differences in outcome.differences.items():
            for difference in differences[:MOST_SHOWN]:
                print(f"{name}: {difference}")
        differ = [case["name"] for case in bunch.cases if outcome.differences[case["name"]]]
        what = f"{len(bunch.cases)} cases, {outcome.records} records, {len(differ)} differ, {seconds:.0f} s"
        print(f"{how} {bunch.name}: {what}", flush=True)
        yield {
            "how": how, "bunch": bunch.name, "cases": [case["name"] for case in bunch.cases], "differ": differ,
            "records": outcome.records, "seconds": seconds, "left_out": [[*key, n] for key, n in left_out.items()],
        }  # fmt: skip


@contextmanager
def _hosts(folder: Path, how: str, seed: int) -> Iterator[tuple[str, list[Any]]]:
    """A broker, a Ray of this process, and a Spark where there is something to backfill."""
    # Ray's workers and Spark's find the tests' functions by the path, and do not run behind all else.
    os.environ.update({"PYTHONPATH": str(Path(__file__).parents[2]), "RAY_worker_niceness": "0"})
    played = [("live", play, excluded), ("cached", play_with_caches, excluded)]
    ways: list[Any] = [way for way in played if how in ("all", way[0])]
    with LocalBroker(folder / "broker", port=0) as status:
        ray.init(
            address="local", num_cpus=2, namespace="penstock", include_dashboard=False, log_to_driver=False,
            object_store_memory=100_000_000,
        )  # fmt: skip
        try:
            if how in ("live", "cached"):
                yield status.bootstrap_servers, ways
                return
            from penstock.pipeline.spark.spark_session import spark_session
            from tests.live.backfilled import excluded_from_backfill, play_backfilled, way_of

            os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

            def play_one_way(bunch: Bunch, broker: str, application_id: str, state: Path) -> Outcome:
                way = way_of(bunch, seed)
                print(f"{bunch.name}: {way}", flush=True)
                return play_backfilled(bunch, broker, application_id, state, way, seed, spark)

            with spark_session("local[2]", "tests") as spark:

                @contextmanager
                def session(*where: object, **settings: object) -> Iterator[Any]:
                    yield spark

                # One for all bunches.
                with patch("penstock.pipeline.backfill.backfill.spark_session", session):
                    yield status.bootstrap_servers, [*ways, ("backfilled", play_one_way, excluded_from_backfill)]
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
