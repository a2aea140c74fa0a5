"""The comparison of an audit: hashes of all rows on both sides, and the rows of the ranges that differ.

    python -m benchmarks.pipeline.audit [KEYS]

makes a store of so many keys in RocksDB (5 million by default), and an image of it as an audit takes it. Then the image
is hashed in ranges, as on the live side, and the store is hashed in the same ranges, as at the end of a task on Spark.
One process does both, one after the other; live and Spark have their own. Ten rows of the image differ.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.pipeline.figures import Figure
from penstock.actors.task_host.task_images import image_folder, open_image
from penstock.common.ids import TaskId
from penstock.pipeline.audit.task_audit import TaskAudit
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.range_digests import differing_rows, digests_of, rows_of_range

KEYS = 5_000_000
PLANTED = 10
_AT_ONCE = 200_000
_TASK = TaskId(0, 0)
_STORE = "s"
T = TypeVar("T")


def measure(keys: int) -> list[Figure]:
    """Measure, and print each step."""
    builder: AnyStoreBuilder = TimestampedKeyValueStoreBuilder(_STORE)
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        stores = open_task_stores(Path(folder) / "0_0", [builder])
        for begin in range(0, keys, _AT_ONCE):
            rows = {_key(number): chance.randbytes(40) for number in range(begin, min(begin + _AT_ONCE, keys))}
            batch = stores.new_batch()
            for _ in batch.put_all(_STORE, dict(rows)):
                pass
            stores.write(batch, {_STORE: begin + _AT_ONCE})
        image = image_folder(Path(folder), "p", _TASK)
        image.parent.mkdir(parents=True)
        stores.flush()
        _timed("image", lambda: stores.checkpoint(image), 0)
        opened = open_image(image, {_STORE: builder})
        batch = opened.new_batch()
        for _ in range(PLANTED):
            batch.put(_STORE, _key(chance.randrange(keys)), b"wrong")
        opened.write(batch, {})
        live = opened.store(_STORE)
        digests, live_s = _timed("live side: hashes", lambda: digests_of(builder.compared_rows(live)), keys)
        own = stores.store(_STORE)
        at_end = TaskAudit({(_TASK, _STORE): digests})
        ends, spark_s = _timed("Spark side: hashes", lambda: list(at_end.rows(_TASK, {_STORE: (builder, own)})), keys)
        begins = [*(each.begin for each in digests), None]

        def differences() -> int:
            count = 0
            for number in sorted({row.number for row in ends if row.number >= 0}):
                expected = [(row.key, row.row) for row in ends if row.number == number]
                begin, end = begins[number], begins[number + 1]
                count += sum(
                    1 for _ in differing_rows(expected, rows_of_range(builder.compared_rows(live, begin), end))
                )
            return count

        found, _ = _timed("rows that differ", differences, 0)
        print(f"{found} rows differ, of {len(digests):,} ranges")
        opened.close()
        stores.close()
    rate = keys / max(live_s, spark_s)
    return [Figure("audit", f"{keys:,} keys: compared rows/s, of the slower side", (rate,), at_least=300_000)]


def _key(number: int) -> bytes:
    return f"user-{number * 2_654_435_761 % (1 << 32):010}".encode()


def _timed(what: str, do: Callable[[], T], rows: int) -> tuple[T, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    result = do()
    seconds, spent = time.perf_counter() - begun, time.process_time() - cpu
    rate = f", {rows / seconds:,.0f} rows/s ({rows / spent:,.0f} per CPU second)" if rows else ""
    print(f"{what}: {seconds:.3f} s{rate}", flush=True)
    return result, seconds


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else KEYS)
