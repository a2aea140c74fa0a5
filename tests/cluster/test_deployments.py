"""The versions that are accepted, and what a restarted coordinator finds of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.process import ray_kv
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell import deployments
from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.events import Event, SetRollout
from penstock.cluster.program_view import ProgramView
from penstock.cluster.programs import kept_rollout
from penstock.cluster.programs.deploy_plan import Fate
from penstock.cluster.programs.deploy_rules import refusal
from penstock.cluster.programs.program_drawing import program_view
from penstock.cluster.programs.program_with_code import pickled_with_code
from penstock.cluster.programs.version_difference import version_difference
from penstock.cluster.rollout import Deployment, Rollout, RolloutPhase
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.log import logger
from penstock.common.version import version
from penstock.topology.physical.topic_plan import plan_topics

TOPICS = {"lines": 2, "others": 2, "app-counts-changelog": 2}


TEXT, JSON = ps.Serdes.string(), ps.Serdes.json()


def program(*, topic: str = "lines", store: str = "counts", loud: bool = False, **entries: Any) -> ApplicationSpec:
    """A count of records by key."""
    builder = ps.StreamsBuilder()
    stream = builder.stream(topic, ps.Consumed.with_(TEXT, TEXT))
    if loud:
        stream = stream.map_values(lambda value: value.upper())
    stream.group_by_key().count(ps.Materialized.as_(store))
    return spec_of(builder, **entries)


def spec_of(builder: ps.StreamsBuilder, **entries: Any) -> ApplicationSpec:
    """The program that ``builder`` has."""
    config = {"application.id": "app", **{key.replace("_", "."): value for key, value in entries.items()}}
    return ApplicationSpec(builder.build(), StreamsConfig.of(config))


def repartitioned(values: ps.Serde[Any], partitioner: Any = None, **entries: Any) -> ApplicationSpec:
    """Records that cross a repartition topic; ``values`` is the serde of their values there."""
    builder = ps.StreamsBuilder()
    options = ps.Repartitioned.as_("by-word").with_key_serde(TEXT).with_value_serde(values)
    if partitioner is not None:
        options = options.with_stream_partitioner(partitioner)
    builder.stream("lines", ps.Consumed.with_(TEXT, TEXT)).repartition(options).for_each(print)
    return spec_of(builder, **entries)


def through(values: ps.Serde[Any]) -> ApplicationSpec:
    """Records that cross a topic of the user's."""
    builder = ps.StreamsBuilder()
    builder.stream("lines", ps.Consumed.with_(TEXT, TEXT)).to("others", ps.Produced.with_(TEXT, values))
    builder.stream("others", ps.Consumed.with_(TEXT, values)).for_each(print)
    return spec_of(builder)


def grouped_table(values: ps.Serde[Any]) -> ApplicationSpec:
    """A table that is grouped again: the changes of its rows cross a repartition topic."""
    builder = ps.StreamsBuilder()
    table = builder.table("lines", ps.Consumed.with_(TEXT, TEXT), ps.Materialized.as_("lines"))
    grouped = table.group_by(lambda key, value: (value, value), ps.Grouped.as_("words").with_value_serde(values))
    grouped.count(ps.Materialized.as_("counts"))
    return spec_of(builder, default_key_serde=TEXT)


def reduced(values: ps.Serde[Any], *, in_memory: bool = False, **entries: Any) -> ApplicationSpec:
    """The last value of each key, in a store."""
    builder = ps.StreamsBuilder()
    store: ps.Materialized[Any, Any] = ps.Materialized.as_("counts").with_value_serde(values)
    if in_memory:
        store = store.with_store_type(ps.StoreType.IN_MEMORY)
    stream = builder.stream("lines", ps.Consumed.with_(TEXT, TEXT))
    stream.group_by_key().aggregate(str, lambda key, value, total: value, store)
    return spec_of(builder, **entries)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Ray's key-value store."""
    there: dict[str, bytes] = {}

    def put(key: str, value: str | bytes, *, overwrite: bool = True) -> None:
        there[key] = value.encode() if isinstance(value, str) else value

    monkeypatch.setattr(ray_kv, "put", put)
    monkeypatch.setattr(ray_kv, "get", there.get)
    monkeypatch.setattr(ray_kv, "delete", lambda key: there.pop(key, None))

    def delete_all(prefix: str) -> None:
        for key in [key for key in there if key.startswith(prefix)]:
            del there[key]

    monkeypatch.setattr(ray_kv, "delete_all", delete_all)
    return there


class Host:
    """A coordinator with its state machine, as far as its programs are concerned."""

    def __init__(self, running: ApplicationSpec) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.deployments = Deployments(pickled_with_code(running), lambda: "a1", self._spawn, logger(__name__))
        self.machine = Coordinator(plan_topics(running.topology, running.config, TOPICS).tasks, None, 1)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    def feed(self, event: Event) -> None:
        for instruction in self.machine.handle(event):
            if isinstance(instruction, SetRollout):
                self.deployments.rolled_out(instruction.rollout)

    async def deploy(self, wanted: Deployment) -> str | None:
        return await self.deployments.deploy(wanted, self.machine, self._topics, self.feed)

    async def saved(self) -> None:
        await asyncio.gather(*self._tasks)

    @staticmethod
    def _topics() -> Mapping[str, int]:
        return TOPICS


def wanted(spec: ApplicationSpec, **fields: Any) -> Deployment:
    return replace(Deployment(pickled_with_code(spec), 1, version(), 60.0, "call 1"), **fields)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (program(loud=True), None),
        (program(commit_interval_ms=7), None),
        (program(topic="others"), "its tasks differ"),
        (program(store="other"), "it has other internal topics"),
        (program(processing_guarantee="exactly_once_v2"), "processing.guarantee"),
        (program(num_standby_replicas=1), "num.standby.replicas"),
    ],
)
def test_only_what_has_the_same_tasks_stores_and_shared_settings_may_take_over(
    new: ApplicationSpec, why: str | None
) -> None:
    message = refusal(program(), new, TOPICS)
    assert message is None if why is None else message is not None and why in message


@pytest.mark.parametrize(
    ("running", "new", "why"),
    [
        (repartitioned(TEXT), repartitioned(TEXT), None),
        (
            repartitioned(TEXT),
            repartitioned(JSON),
            "topic app-by-word-repartition: read with keys string, values string; written with",
        ),
        (repartitioned(TEXT), repartitioned(TEXT, lambda *_: 0), "a partitioner of its own"),
        (repartitioned(JSON), repartitioned(ps.Serdes.json(dict[str, int])), None),
        (through(TEXT), through(JSON), "topic others: read with"),
        (grouped_table(TEXT), grouped_table(JSON), "values changes of string"),
        (reduced(TEXT), reduced(JSON), "store counts: timestamped key-value, keys string, values string;"),
        (reduced(TEXT), reduced(TEXT, in_memory=True), "stores of other kinds"),
        (reduced(TEXT), reduced(TEXT, dsl_store_format="HEADERS"), "timestamped key-value, with headers on disk"),
        (reduced(JSON), reduced(ps.Serdes.json(dict[str, int])), None),
    ],
)
def test_topics_that_both_versions_write_and_read_must_have_the_same_form(
    running: ApplicationSpec, new: ApplicationSpec, why: str | None
) -> None:
    message = refusal(running, new, TOPICS)
    assert message is None if why is None else message is not None and why in message


def test_a_version_is_kept_with_the_one_before_it_for_a_coordinator_that_is_restarted() -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        assert await host.deploy(wanted(program(loud=True))) is None
        await host.saved()
        restarted = Host(program())
        spec = await restarted.deployments.load(restarted=True)
        assert restarted.deployments.rollout == Rollout(2, 1, 2, RolloutPhase.STARTING, watch_s=60.0)
        assert "MAPVALUES" in spec.topology.describe()
        assert restarted.deployments.pickled(1) == host.deployments.pickled(1)
        assert await restarted.deploy(wanted(program(loud=True))) is None, "Ray repeats the call"
        assert restarted.deployments.rollout.last == 2

    asyncio.run(play())


def test_a_coordinator_that_is_restarted_after_a_deploy_takes_the_next_one() -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        await host.deploy(wanted(program(loud=True)))
        host.deployments.rolled_out(Rollout(2, 2, 2, RolloutPhase.DONE))
        await host.saved()
        restarted = Host(program())
        await restarted.deployments.load(restarted=True)
        restarted.deployments.rolled_out(Rollout(3, 2, 3, RolloutPhase.STARTING))
        await restarted.saved()
        kept = kept_rollout.load("a1")
        assert kept is not None
        assert kept[0].generation == 3

    asyncio.run(play())


def test_a_version_that_is_proven_while_the_next_one_is_saved_does_not_lose_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save = kept_rollout.save_program

    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        await host.deploy(wanted(program(loud=True)))
        await host.saved()
        loop, proven = asyncio.get_running_loop(), Rollout(2, 2, 2, RolloutPhase.DONE)

        async def prove() -> None:
            host.machine._rollouts.now = proven
            host.deployments.rolled_out(proven)

        def saving(actor_id: str, generation: int, pickled: bytes) -> None:
            if host.machine.rollout != proven:
                asyncio.run_coroutine_threadsafe(prove(), loop).result()
            save(actor_id, generation, pickled)

        monkeypatch.setattr(kept_rollout, "save_program", saving)
        assert await host.deploy(wanted(program(commit_interval_ms=7), last=2, call="call 2")) is None
        await host.saved()
        assert host.machine.rollout.proven == 2
        restarted = Host(program())
        await restarted.deployments.load(restarted=True)
        assert restarted.deployments.rollout == Rollout(3, 2, 3, RolloutPhase.STARTING, watch_s=60.0)

    asyncio.run(play())


def test_a_version_that_no_roll_back_needs_is_kept_no_longer(kept: dict[str, bytes]) -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        await host.deploy(wanted(program(loud=True)))
        host.deployments.rolled_out(Rollout(2, 2, 2, RolloutPhase.DONE))
        await host.saved()
        assert kept_rollout.load_program("a1", 1) is None
        assert kept_rollout.load_program("a1", 2) is not None
        kept_rollout.delete("a1")
        assert kept == {}

    asyncio.run(play())


def test_a_version_whose_roll_out_never_began_is_not_left_behind(kept: dict[str, bytes]) -> None:
    for generation in (1, 2):
        kept_rollout.save_program("a1", generation, b"program")
    kept_rollout.save_program("a10", 1, b"of another coordinator")
    kept_rollout.delete("a1")
    assert kept == {"program/a10/1": b"of another coordinator"}


def test_a_restarted_coordinator_whose_program_is_lost_names_the_way_out(kept: dict[str, bytes]) -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        await host.deploy(wanted(program(loud=True)))
        kept_rollout.delete_program("a1", 2)
        with pytest.raises(ConfigError, match=r"version 2 of the program is not in Ray's .* again with 'penstock run'"):
            await Host(program()).deployments.load(restarted=True)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": "0.0.1"}, "this is penstock 0.0.1. Stop it and start the new version"),
        ({"last": 0}, "another version was deployed meanwhile"),
    ],
)
def test_a_version_for_another_penstock_or_compared_with_an_earlier_one_is_refused(
    changed: dict[str, Any], why: str, kept: dict[str, bytes]
) -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        message = await host.deploy(wanted(program(loud=True), **changed))
        assert message is not None
        assert why in message
        assert host.machine.rollout == Rollout()
        assert kept == {}

    asyncio.run(play())


def test_a_program_that_is_too_large_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        host, new = Host(program()), wanted(program(loud=True))
        await host.deployments.load(restarted=False)
        monkeypatch.setattr(deployments, "_MOST_PROGRAM_BYTES", len(new.program) - 1)
        assert (
            await host.deploy(new) == f"the program has {len(new.program):,} bytes, more than {len(new.program) - 1:,}"
        )
        monkeypatch.setattr(deployments, "_MOST_PROGRAM_BYTES", len(new.program))
        assert await host.deploy(new) is None

    asyncio.run(play())


@pytest.mark.parametrize("phase", RolloutPhase)
def test_a_version_that_is_rolled_back_is_an_error_in_the_log(phase: RolloutPhase) -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        with capture_logs() as logged:
            host.deployments.rolled_out(Rollout(1, 1, 2, phase, "boom"))
        (line,) = logged
        failed = phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK)
        assert (line["log_level"], line.get("reason")) == (("error", "boom") if failed else ("info", None))
        await host.saved()

    asyncio.run(play())


def test_the_page_sees_each_version_that_is_kept_and_each_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def drawing(spec: ApplicationSpec, generation: int) -> ProgramView:
        drawn.append(generation)
        return program_view(spec, generation)

    monkeypatch.setattr("penstock.cluster.coordinator_shell.deployments.program_view", drawing)

    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        first, again = await asyncio.gather(host.deployments.view(), host.deployments.view(1))
        assert (first is again, await host.deployments.view(2)) == (True, None)
        assert await host.deploy(wanted(program(loud=True))) is None
        second = await host.deployments.view()
        assert first is not None
        assert second is not None
        assert (first.generation, second.generation) == (1, 2)
        assert first.fingerprint != second.fingerprint
        assert drawn == [1, 2]
        host.deployments.rolled_out(Rollout(2, 2, 2, RolloutPhase.DONE))
        await host.saved()
        assert await host.deployments.view(1) is None, "it is not kept any more"
        assert await host.deployments.view() is second

    asyncio.run(play())


def test_the_page_sees_what_a_roll_out_changes_while_it_lasts_and_afterwards() -> None:
    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        assert (await host.deployments.rollout_view()).difference is None
        assert await host.deploy(wanted(program(loud=True))) is None
        await host.saved()
        view = await host.deployments.rollout_view()
        assert (view.rollout.phase, set(view.fingerprints)) == (RolloutPhase.STARTING, {1, 2})
        assert view.fingerprints[1] != view.fingerprints[2]
        difference = view.difference
        assert difference is not None
        assert (difference.old, difference.new) == (1, 2)
        assert {(each.kind, each.fate, each.name) for each in difference.changes} == {
            ("tasks", "kept", "0_*"),
            ("store", "kept", "counts"),
            ("topic", "kept", "app-counts-changelog"),
            ("topic", "kept", "lines"),
        }
        assert any(line.startswith("+ Processor: KSTREAM-MAPVALUES") for line in difference.lines)
        restarted = Host(program())
        await restarted.deployments.load(restarted=True)
        assert (await restarted.deployments.rollout_view()).difference == difference
        host.deployments.rolled_out(Rollout(2, 2, 2, RolloutPhase.DONE))
        await host.saved()
        view = await host.deployments.rollout_view()
        assert (set(view.fingerprints), view.difference) == ({2}, difference), "the old version is not kept any more"

    asyncio.run(play())


def test_a_picture_or_a_difference_that_could_not_be_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    async def play() -> None:
        host = Host(program())
        await host.deployments.load(restarted=False)
        assert await host.deploy(wanted(program(loud=True))) is None
        with monkeypatch.context() as patch:
            for name in ("program_view", "version_difference"):
                patch.setattr(deployments, name, fails)
            for asked in (host.deployments.view, host.deployments.rollout_view):
                with pytest.raises(MemoryError):
                    await asked()
        view, rollout = await host.deployments.view(), await host.deployments.rollout_view()
        assert view is not None
        assert rollout.difference is not None

    asyncio.run(play())


def test_the_difference_is_in_the_words_of_penstock_plan() -> None:
    difference = version_difference((3, reduced(TEXT)), (4, program(store="other", topic="others")))
    fates = {(each.kind, each.name): each.fate for each in difference.changes}
    assert (difference.old, difference.new) == (3, 4)
    assert fates["store", "counts"] == "orphaned"
    assert fates["store", "other"] == "new"
    assert fates["topic", "others"] == "new"
    assert difference.line_count == len(difference.lines)


def test_what_costs_most_is_the_first_in_a_difference() -> None:
    difference = version_difference((3, reduced(TEXT)), (4, program(store="other", topic="others")))
    costs = [list(Fate).index(Fate(each.fate)) for each in difference.changes]
    assert costs == sorted(costs, reverse=True)
    assert [each.is_loss for each in difference.changes] == [Fate(each.fate).is_loss for each in difference.changes]
    assert difference.changes[0].is_loss
    assert not difference.changes[-1].is_loss
