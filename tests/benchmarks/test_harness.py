"""The harness at small size and without the Java side: that it measures and compares, never how fast."""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import commit_stops, driver_speed, http_load, http_lookups, recovery
from benchmarks.compare import Output, differences
from benchmarks.data import (
    DENSE_PER_MS,
    INPUT,
    LATE_MS,
    Dataset,
    clicks_and_views,
    dense_payments,
    hot_payments,
    late_payments,
    orders_of_users,
    payments,
    payments_of_users,
    wide_payments,
)
from benchmarks.expected import expected_output
from benchmarks.measure import BenchmarkError, Run, Side, Usage, run_side
from benchmarks.penstock_side import PenstockSide
from benchmarks.report import comparison, pair_ratios, to_markdown, write_section
from benchmarks.rig import Rig
from benchmarks.workloads import GAP_MS, WORKLOADS
from penstock.actors.commit_stops import CommitStops
from penstock.common.serdes import Serdes
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker
from penstock.testing.topology_test_driver import TopologyTestDriver
from tests.waiting import PATIENCE_S

RECORDS, KEYS = 5_000, 200


DATASETS = {
    each.name: each
    for each in (
        payments_of_users(RECORDS, KEYS),
        clicks_and_views(RECORDS // 2, KEYS),
        orders_of_users(RECORDS, KEYS, buyers=20),
    )
}


@pytest.fixture(scope="module")
def rigs(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Rig]]:
    """A rig for each dataset with topics of its own, by name."""
    made = {
        name: Rig(tmp_path_factory.mktemp("bench"), broker, dataset, Console(file=io.StringIO()))
        for name, dataset in DATASETS.items()
    }
    for rig in made.values():
        rig.fill()
    yield made
    for rig in made.values():
        shutil.rmtree(rig.work)


@pytest.fixture(scope="module")
def rig(rigs: Mapping[str, Rig]) -> Rig:
    return rigs["payments"]


def test_the_cost_of_lookups_is_measured_against_the_half_seconds_around_them() -> None:
    progress, done = [(1000.0, 0.0)], 0.0
    for at in range(1100, 9000, 100):
        done += (100 + at / 1000) * (0.9 if http_load.asks_in(at - 50, http_lookups.PERIOD_S) else 1.0)
        progress.append((float(at), done))
    (cost,) = http_lookups.cost(progress)
    assert cost == pytest.approx(0.1, abs=0.002)


@pytest.mark.parametrize("progress", [[], [(1000.0, 0.0)], [(1000.0, 0.0), (1600.0, 5.0)]])
def test_a_run_that_is_too_short_reports_no_cost(progress: list[tuple[float, float]]) -> None:
    assert http_lookups.cost(progress) == []


def test_a_connection_that_the_server_closed_is_not_asked_again() -> None:
    async def ask() -> int:
        connections = 0

        async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
        async with server:
            load = http_load.Load(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "/{key}", 1)
            async with asyncio.timeout(PATIENCE_S):
                await load.open(rate=20, seconds=0.5, stop=asyncio.Event(), period=0, warm=0)
        assert load.statuses == {200: connections}
        return connections

    assert asyncio.run(ask()) > 1


@pytest.mark.long
@pytest.mark.parametrize("workload", ["join", "stream-join", "foreign-key-join"])
def test_a_run_of_penstock_is_measured_and_its_output_found_right(rigs: Mapping[str, Rig], workload: str) -> None:
    rig = rigs.get(WORKLOADS[workload].dataset, rigs["payments"])
    run, wrong = rig.run(PenstockSide(rig.records, rig.bootstrap_servers, rig.work / "state").side(), workload)

    assert wrong == []
    assert 0 < run.first_ms <= run.half_ms <= run.processed_ms <= run.committed_ms
    assert {"worker", "coordinator", "raylet", "gcs"} <= run.usage.keys()
    assert run.peak_mb("worker") > 10


@pytest.mark.long
def test_look_ups_on_an_idle_application_are_all_answered(rig: Rig) -> None:
    result, runs, wrong = http_lookups.measure(rig, repeat=0, idle_s=0.5)

    assert wrong == []
    assert len(runs) == 1
    assert set(result.idle.statuses) == {"200"}
    assert result.idle.lookups == result.idle.statuses["200"]
    assert result.batches.lookups == result.batches.statuses["200"] * http_lookups.BATCH
    assert "idle" in to_markdown(http_lookups.table(result))


@pytest.mark.long
def test_the_stops_of_commits_are_measured(rig: Rig) -> None:
    stops, wrong = commit_stops.measure(rig, repeat=1)

    assert wrong == []
    assert len(stops) == 1
    assert stops[0].commits <= stops[0].stops


def test_the_stops_of_several_runs_make_one_row() -> None:
    runs = [CommitStops(2, 20, 1.0, 5.0, 9.0, 30.0, 40.0), CommitStops(3, 30, 2.0, 6.0, 8.0, 20.0, 50.0)]
    headings, [row] = commit_stops.table(runs)
    assert len(headings) == len(row)
    assert row[:2] == ["5", "50"]
    assert row[4] == "8.5 (8.0–9.0)"


def test_the_test_driver_is_measured_and_its_counts_compared() -> None:
    runs, wrong = driver_speed.measure(2, words=50)
    assert wrong == []
    assert [run.words_per_line for run in runs] == [1, 5, 1, 5]
    _, rows = driver_speed.table(runs)
    assert [row[0] for row in rows] == ["1", "5"]


def test_wrong_counts_of_the_test_driver_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_speed, "Counter", lambda words: {"word-0": 1})
    assert driver_speed.measure(1, words=50)[1] == [
        f"TopologyTestDriver, {words} words per line: the counts are wrong" for words in (1, 5)
    ]


@pytest.mark.submission
def test_a_side_that_fails_is_reported_with_its_output(broker: str) -> None:
    program = "import sys; print('not an event'); sys.exit('out of order')"
    side = Side("broken", lambda workload, application_id, output: [sys.executable, "-c", program])
    with pytest.raises(BenchmarkError, match=r"broken, json: exit code 1[\s\S]*out of order"):
        run_side(
            side, "json", DATASETS["payments"], "bench-broken", "nowhere", ConfluentClients(broker, "bench").admin()
        )


def test_a_side_that_takes_too_long_is_ended(broker: str) -> None:
    side = Side("slow", lambda workload, application_id, output: [sys.executable, "-c", "input()"])
    with pytest.raises(BenchmarkError, match="slow, json: exit code"):
        run_side(
            side, "json", DATASETS["payments"], "bench-slow", "nowhere",
            ConfluentClients(broker, "bench").admin(), timeout_s=0.2,
        )  # fmt: skip


def test_rows_in_another_order_are_no_difference() -> None:
    rows = list(payments(3000, KEYS))
    by_key = sorted(rows, key=lambda row: row[0])  # stable: the order within a key stays
    assert differences("json", _json(rows), _json(by_key)) == []


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_a_lost_row_is_a_difference(workload: str) -> None:
    dataset = DATASETS.get(WORKLOADS[workload].dataset, DATASETS["payments"])
    inputs = {topic: list(rows()) for topic, rows in {**dataset.streams, **dataset.tables}.items()}
    whole = expected_output(workload, inputs)
    first = inputs[next(iter(dataset.streams))]
    key, _, _ = first[-1]
    with_less = [row for row in first if row[0] != key]
    assert differences(workload, whole, expected_output(workload, {**inputs, next(iter(dataset.streams)): with_less}))


@pytest.mark.parametrize(
    ("workload", "dataset"),
    [
        ("session-dense", dense_payments(RECORDS, KEYS, per_ms=1)),
        ("window-1s", dense_payments(RECORDS, KEYS, per_ms=1)),
        ("window-late", late_payments(RECORDS, KEYS, per_ms=1)),
        ("count-hot", hot_payments(RECORDS, KEYS)),
        ("json-wide", wide_payments(200, KEYS)),
    ],
)
def test_the_program_of_a_hard_shape_writes_what_is_expected(workload: str, dataset: Dataset) -> None:
    inputs = {topic: list(rows()) for topic, rows in dataset.streams.items()}
    with TopologyTestDriver(WORKLOADS[workload].topology("out")) as driver:
        for key, value, timestamp in inputs[INPUT]:
            driver.pipe(INPUT, key, value, timestamp)
        written = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes()).read_records_to_list()
    output = Output.of((record.key, record.value, record.timestamp) for record in written)
    there = replace(output, final={key: value for key, value in output.final.items() if value is not None})
    assert differences(workload, expected_output(workload, inputs), there) == []


def test_the_hard_shapes_are_hard() -> None:
    last, extended = dict[bytes, int](), 0
    for key, _, timestamp in dense_payments(50_000, 2_000, per_ms=5).streams[INPUT]():
        extended += timestamp - last.get(key, 0) <= GAP_MS
        last[key] = timestamp
    assert 0.65 < extended / 50_000 < 0.75
    times = [timestamp for _, _, timestamp in late_payments(20_000, KEYS).streams[INPUT]()]
    late = sum(now > after for now, after in pairwise(times))
    assert 0.04 < late / 20_000 < 0.06
    assert max(times) - min(times) <= LATE_MS + 20_000 // DENSE_PER_MS
    (_, hottest), *_ = Counter(key for key, _, _ in hot_payments(20_000, 100_000).streams[INPUT]()).most_common(1)
    assert hottest > 0.1 * 20_000
    assert all(1_950 < len(value) < 2_050 for _, value, _ in wide_payments(200, KEYS).streams[INPUT]())


def test_two_rows_swapped_between_times_are_a_difference() -> None:
    rows = list(payments(3000, KEYS))
    (first, one, early), (second, two, late) = rows[2400], rows[2480]
    assert early != late
    swapped = [*rows]
    swapped[2400], swapped[2480] = (first, one, late), (second, two, early)
    assert differences("json", _json(rows), _json(swapped))


def test_the_same_seed_gives_the_same_records() -> None:
    assert list(payments(500, KEYS)) == list(payments(500, KEYS))
    assert len(list(payments(12_345, KEYS))) == 12_345


def test_ratios_compare_each_run_with_its_partner() -> None:
    runs = [_run("java", 100.0), _run("penstock", 50.0), _run("java", 90.0), _run("penstock", 30.0)]
    assert pair_ratios(runs, "json") == [2.0, 3.0]
    _, [java, penstock] = comparison(runs)
    assert java[-1] == ""
    assert penstock[-1] == "2.50 (2.00–3.00)"


def test_without_a_jdk_the_error_names_the_version_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks.baseline import find_jdk

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkError, match=r"needs a JDK \(with javac\) of version 17.*set JAVA_HOME"):
        find_jdk()


def _json(rows: list[tuple[bytes, bytes, int]]) -> Output:
    return expected_output("json", {INPUT: rows})


def _run(side: str, took_s: float) -> Run:
    return Run(side, "json", 1_000_000, 0.0, took_s * 500, took_s * 1000, took_s * 1000, {"worker": Usage(1.0, 1)})


# ---- recovery ----


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[str]:
    """A broker of its own, as the benchmark has one: on the session's, other tests have written to the input."""
    with LocalBroker(tmp_path / "broker", port=0) as status:
        yield status.bootstrap_servers


@pytest.mark.long
def test_a_restore_is_measured_until_all_tasks_run_and_the_store_is_compared(own_broker: str, tmp_path: Path) -> None:
    made = recovery.Recovery(tmp_path, own_broker, 3_000, 500, Console(file=io.StringIO()))
    ((side, state),) = made.sides(jdk=None)
    made.fill(side)
    for _ in range(2):
        run, wrong = made.restore(side, state)
        assert wrong == []
        assert run.first_ms < run.processed_ms <= run.committed_ms
        assert run.usage["worker"].peak_bytes > 0
    made._expected[7] += 1
    _, wrong = made.restore(side, state)
    assert wrong == ["penstock: the store has another count of 1 users: [7], …"]


def test_the_changelog_counts_the_payments_of_each_user() -> None:
    rows = list(recovery.changelog(2_000, 300))
    last = {int(key[5:]): int.from_bytes(value, "big") for key, value, _ in rows}
    assert last == recovery.sample(2_000, 300)
    assert sum(last.values()) == len(rows) == 2_000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Page\n", "# Page\n\n## Mine\n\nnew\n"),
        ("# Page\n\n## Mine\n\nold\n", "# Page\n\n## Mine\n\nnew\n"),
        ("# Page\n\n## Mine\n\nold\n\n## Other\n\nkept\n", "# Page\n\n## Mine\n\nnew\n\n## Other\n\nkept\n"),
    ],
)
def test_a_section_of_the_page_is_replaced_and_the_others_stay(before: str, after: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(before)
    write_section(page, "## Mine", "## Mine\n\nnew\n")
    assert page.read_text() == after
