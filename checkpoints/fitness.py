"""Compares a checkpoint with what a task expects, before any of its rows is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.checkpoints.manifest import CheckpointManifest, StoreInCheckpoint


@dataclass(frozen=True)
class ExpectedStore:
    """A store on disk that the task has. ``form``: the form of its rows (:attr:`StoreBuilder.layout`). ``changelog``:
    its topic, with the id that the topic has now; None without one. An id is None if the brokers give none."""

    form: str
    changelog: str | None = None
    changelog_topic_id: str | None = None


@dataclass(frozen=True)
class ExpectedInput:
    """A partition that the task reads: its committed offset, None without one, and its topic's id, None if the brokers
    give none."""

    committed: int | None
    topic_id: str | None = None


@dataclass(frozen=True)
class ExpectedState:
    """All stores of a task that are on disk, by name, and all partitions that it reads, by topic and number."""

    stores: Mapping[str, ExpectedStore]
    inputs: Mapping[str, Mapping[int, ExpectedInput]]


@dataclass(frozen=True)
class Verdict:
    """``wipe``: the stores whose rows must be deleted when the checkpoint is opened, each with the reason. ``notices``:
    facts that people should know. ``refused``: the reason for which the checkpoint cannot be used at all; None if it
    can."""

    wipe: Mapping[str, str]
    notices: tuple[str, ...]
    refused: str | None


def judge(manifest: CheckpointManifest, expected: ExpectedState) -> Verdict:
    """Returns the parts of a checkpoint that can be used."""
    wipe: dict[str, str] = {}
    refused = None
    useful = False
    for name, store in expected.stores.items():
        found = manifest.stores.get(name)
        if found is None:
            continue
        reason = _mismatch(found, store) or _stale(store, manifest, expected)
        if reason is None:
            useful = useful or found.changelog_offset is not None or store.changelog is None
            continue
        wipe[name] = reason
        if store.changelog is None and found.form != store.form:
            refused = f"store {name!r} {reason}, and has no changelog to be restored from"
    refused = refused or _unfinished(manifest, expected)
    if refused is None and not useful:
        reasons = "; ".join(f"store {name!r} {reason}" for name, reason in wipe.items())
        refused = reasons or "it has no rows of the task's stores"
    return Verdict(wipe, tuple(_notices(manifest, expected)), refused)


def _mismatch(found: StoreInCheckpoint, expected: ExpectedStore) -> str | None:
    """Returns the reason for which the rows are not those of the store; None if they are."""
    if found.form != expected.form:
        return f"has rows of the form ({found.form}), but the program expects ({expected.form})"
    if found.changelog != expected.changelog:
        return f"had the changelog {found.changelog or '(none)'}, and now has {expected.changelog or 'none'}"
    if _differ(found.changelog_topic_id, expected.changelog_topic_id):
        return (
            f"had the changelog {found.changelog} with the id {found.changelog_topic_id}, which was deleted: the "
            f"topic of that name now has the id {expected.changelog_topic_id}"
        )
    return None


def _stale(store: ExpectedStore, manifest: CheckpointManifest, expected: ExpectedState) -> str | None:
    """Returns the reason for which the rows of a store without a changelog are too old; None if they are not, or the
    changelog has the rest."""
    if store.changelog is not None:
        return None
    committed = {
        (topic, partition): found.committed
        for topic, partitions in expected.inputs.items()
        for partition, found in partitions.items()
        if found.committed is not None
    }
    offsets = {
        (topic, partition): found.offset
        for topic, partitions in manifest.inputs.items()
        for partition, found in partitions.items()
    }
    if committed == offsets:
        return None
    return "has no changelog, and the task has processed records since the checkpoint"


def _unfinished(manifest: CheckpointManifest, expected: ExpectedState) -> str | None:
    """Returns the reason for which a hand-over does not count: its backfill has not committed its offsets, so that the
    records that its rows count would come again. None if it counts, or if no offset is expected."""
    if manifest.sequence:
        return None
    for topic, partitions in manifest.inputs.items():
        for partition, found in partitions.items():
            now = expected.inputs.get(topic, {}).get(partition)
            if now is not None and now.committed is not None and now.committed < found.offset:
                return (
                    f"it is of a backfill that has not committed its offsets: it has the records of topic {topic}, "
                    f"partition {partition}, up to offset {found.offset}, and the application is at {now.committed}"
                )
    return None


def _notices(manifest: CheckpointManifest, expected: ExpectedState) -> list[str]:
    notices = []
    for topic, partitions in expected.inputs.items():
        for partition, now in partitions.items():
            then = manifest.inputs.get(topic, {}).get(partition)
            if then is not None and _differ(then.topic_id, now.topic_id):
                notices.append(
                    f"topic {topic} was deleted and made again: the stores of task {manifest.task} have records of "
                    f"the topic with the id {then.topic_id}, up to offset {then.offset} of partition {partition}; now "
                    f"it has the id {now.topic_id}. Reset the application if they are not to count"
                )
    return notices


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
