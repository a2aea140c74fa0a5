"""Cases of which a backfill without Spark plays the history, and tasks that begin with what it hands over the rest.

The hosts, the upload, the manifest, and what a start makes of it are the real ones. Kafka is a fake, and the tasks are
those of :class:`PartitionedDriver`, so that all cases take minutes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.actors.checkpoints import fetching
from penstock.checkpoints.fetching import fetch_newest
from penstock.checkpoints.fitness import ExpectedInput, ExpectedState, ExpectedStore, judge
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS
from penstock.common.topics import NewTopic
from penstock.objects.storage import ObjectLocation
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from tests.live.backfilled import Way
from tests.live.bunches import Bunch
from tests.live.partitioned_driver import HostedTask, PartitionedDriver, Written
from tests.live.play import Expected, Outcome, compared, halves
from tests.live.rig import configuration
from tests.parity.fuzz.keyless import KeylessToFirst
from tests.pipeline.without_spark import backfill_without_spark

APPLICATION = "app"


def play_handed_over(bunch: Bunch, way: Way, seed: int, folder: Path) -> Outcome:
    """Plays ``bunch``, cut as ``seed`` says. Of ``way``, the source is always the fake Kafka."""
    bunch = replace(bunch, partitions=way.partitions)
    cut = [halves(bunch, case, in_order=True, seed=seed) for case in bunch.cases]
    expected = Expected(bunch, APPLICATION, cut, way.forgets)
    clients = FakeClients(APPLICATION, KeylessToFirst())
    clients.admin().create_topics(NewTopic(topic, bunch.partitions) for topic in bunch.topics)
    for first, _ in cut:
        for it in (*first.filled, *first.records):
            record = FakeRecord(it.key, it.value, it.timestamp, list(it.headers) or None)
            clients.broker.append(it.topic, record, it.partition)
    place = {"state.checkpoint.uri": str(folder / "objects")} if way.checkpoints else {}
    config = StreamsConfig.of({**configuration(bunch, APPLICATION), **place})
    backfill_without_spark(bunch.built.topology, config, clients, 1)
    driver = PartitionedDriver(bunch.built.topology, configuration(bunch, APPLICATION), bunch.partitions)
    try:
        _continue(driver, config, clients, folder)
        for _, second in cut:
            for it in (*second.filled, *second.records):
                driver.pipe(it.topic, it.partition, Written(it.key, it.value, it.timestamp, it.headers))
        stores = {name: _content(driver, name) for name in bunch.stores}
        return compared(bunch, expected, driver.topics, stores, APPLICATION, backfilled=True)
    finally:
        for hosted in driver.hosted:
            hosted.close()


def _continue(driver: PartitionedDriver, config: StreamsConfig, clients: FakeClients, folder: Path) -> None:
    """Let the tasks of ``driver`` begin with what the topics and the hand-over have."""
    broker = clients.broker
    for topic, count in broker.topics().items():
        for number in range(count):
            for it in broker.log(TopicPartition(topic, number)).records:
                headers = tuple(it.headers or ()) or NO_HEADERS
                driver.append(topic, number, Written(it.key, it.value, it.timestamp, headers))
    driver.fill_global_stores()
    committed = clients.admin().committed(APPLICATION)
    for hosted in driver.hosted:
        hosted.take_over(_fetched(hosted, config, clients, folder / str(hosted.id)), committed)
    driver.work()


def _fetched(hosted: HostedTask, config: StreamsConfig, clients: FakeClients, folder: Path) -> Path | None:
    """Returns the folder with the stores that were handed over to a task, as a stream actor fetches them."""
    if config.state_checkpoint_uri is None:
        return None
    admin, number = clients.admin(), hosted.id.partition
    ids, committed = admin.topic_ids(admin.topics()), admin.committed(APPLICATION)
    stores = {}
    for builder in hosted.program.stores.values():
        changelog = hosted.program.changelogs.get(builder.name)
        topic = None if changelog is None else changelog.topic
        if builder.persistent:
            stores[builder.name] = ExpectedStore(builder.layout, topic, None if topic is None else ids[topic])
    inputs = {
        topic: {number: ExpectedInput(committed[at].offset, ids[topic])}
        for topic in hosted.program.sources
        if (at := TopicPartition(topic, number)) in committed
    }
    expected = ExpectedState(stores, inputs)
    builders = list(hosted.program.stores.values())
    fetch = fetching._Fetch(hosted.id, folder, expected, builders, {}, 0)
    repository = CheckpointRepository(ObjectLocation(config.state_checkpoint_uri).open(), APPLICATION)
    newest = next(repository.newest_first(str(hosted.id)), None)
    if newest is None:
        return None
    found = fetch_newest(
        repository, str(hosted.id), expected, folder, prepare=lambda found: fetching._prepare(fetch, found)
    )
    assert found is not None, f"task {hosted.id}: {judge(newest, expected).refused}"
    return folder


def _content(driver: PartitionedDriver, store: str) -> dict[Any, Any]:
    if (found := driver.global_stores.get(store)) is not None:
        return dict(found.opened.view().all())
    tasks = [it for it in driver.hosted if store in it.state_manager.store_names]
    return {key: value for task in tasks for key, value in task.entries(store)}
