"""``python -m tests.live``: all cases live, shape by shape; ends with the table of docs/PARITY.md."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic

import ray

from penstock.kafka.local_broker.broker import LocalBroker
from tests.live.bunches import bunches
from tests.live.play import excluded, play
from tests.parity import corpus

SIZE = 30


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.live")
    parser.add_argument("--shapes", default="")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--size", type=int, default=SIZE)
    arguments = parser.parse_args()
    shapes: dict[str, list] = {}
    for file in corpus.FILES:
        for case in corpus.read(file):
            shapes.setdefault(case["name"].rsplit("-", 2)[0], []).append(case)
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder) / "broker", port=0) as status:
        ray.init(address="local", num_cpus=4, namespace="penstock", include_dashboard=False, log_to_driver=False,
            object_store_memory=100_000_000)
        for shape, cases in shapes.items():
            if arguments.shapes and shape not in arguments.shapes.split(","):
                continue
            cases = [c for c in cases if excluded(c) is None]
            if arguments.cases:
                cases = cases[: arguments.cases]
            for number, bunch in enumerate(bunches(shape, cases, arguments.size)):
                begun = monotonic()
                found = play(bunch, status.bootstrap_servers, f"l{number}-{bunch.name}", Path(folder) / f"{shape}{number}", print)
                for name, diffs in found.items():
                    for d in diffs[:3]:
                        print(name, d)
                print(f"{bunch.name}: {len(found)} cases, {sum(map(bool, found.values()))} differ, {monotonic() - begun:.0f} s", flush=True)
        ray.shutdown()


if __name__ == "__main__":
    main()
