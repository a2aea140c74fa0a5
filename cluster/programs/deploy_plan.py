"""Compares two descriptions before a deploy: the fates of topics, stores and tasks when one version of a program
replaces another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.cluster.programs.description import DescribedStore, DescribedSubtopology, Description
from penstock.common.serdes import format_of

RESTORED_PER_S = 400_000
"""Approximate number of records that a stream actor restores in a second, measured on two cores."""

# Kinds whose changelogs have the same form: each is restored from that of another.
_PLAIN = "keys and values"
_FORMS = {
    "key-value": _PLAIN, "timestamped key-value": _PLAIN, "versioned": _PLAIN,
    "window": "windows", "timestamped window": "windows",
}  # fmt: skip


class Fate(Enum):
    """Fates of topics, stores and tasks, by their cost. The last three mean a loss: see :attr:`is_loss`."""

    KEPT = "kept"
    NEW = "new"
    MOVED = "moved"
    CHANGED = "changed"
    RESTORED = "restored"
    GONE = "gone"
    ORPHANED = "orphaned"
    REBUILT = "rebuilt"
    REFUSED = "refused"

    @property
    def is_loss(self) -> bool:
        """True if something would be lost, or would not start."""
        return self in (Fate.ORPHANED, Fate.REBUILT, Fate.REFUSED)


@dataclass(frozen=True)
class InKafka:
    """Facts from a broker that a comparison needs."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    """Number of partitions of each existing topic."""
    wanted: Mapping[str, int] = field(default_factory=dict)
    """Number of partitions that the new program needs, of each internal topic."""
    tasks: Mapping[int, int] = field(default_factory=dict)
    """Number of tasks of the new program, of each sub-topology."""
    records: Mapping[str, int] = field(default_factory=dict)
    """Number of records of each internal topic."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """Number of records that are not processed yet, of each repartition topic."""
    refused: str | None = None
    """The reason why the new program could not start in any case; None if it could."""


@dataclass(frozen=True)
class TopicFate:
    """A topic; ``records`` is the number of its records, None if no broker was asked."""

    name: str
    use: str
    fate: Fate
    records: int | None = None
    note: str = ""


@dataclass(frozen=True)
class StoreFate:
    """A store, with the sub-topologies that have it, and the topic that is read to restore it."""

    name: str
    fate: Fate
    was: int | None
    now: int | None
    records: int | None = None
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True)
class TaskFate:
    """The tasks of a sub-topology: its number before and after, and the number of tasks."""

    fate: Fate
    was: int | None
    now: int | None
    tasks: int | None = None
    note: str = ""


@dataclass(frozen=True)
class DeployPlan:
    """The effect of a deploy. ``records``: number of records that are restored; ``seconds``: the time for that by one
    stream actor."""

    old: str
    new: str
    topics: tuple[TopicFate, ...]
    stores: tuple[StoreFate, ...]
    tasks: tuple[TaskFate, ...]
    refused: str | None = None

    @property
    def loses(self) -> bool:
        """True if something is orphaned, must be rebuilt, or would not start."""
        return self.refused is not None or any(
            fate.is_loss for fate in [each.fate for each in self.topics] + [each.fate for each in self.stores]
        )

    @property
    def records(self) -> int | None:
        """Number of records that are restored; None if no broker was asked."""
        known = [each.records for each in self.stores if each.records is not None]
        return sum(known) if known else None


def plan_deploy(old: Description, new: Description, kafka: InKafka | None = None) -> DeployPlan:
    """Returns the effect of replacing ``old`` by ``new``; with figures if ``kafka`` is known."""
    there = kafka or InKafka()
    return DeployPlan(
        old.application_id,
        new.application_id,
        tuple(_topics(old, new, there)),
        tuple(_stores(old, new, kafka)),
        tuple(_tasks(old, new, there)),
        there.refused,
    )


def _topics(old: Description, new: Description, there: InKafka) -> Iterable[TopicFate]:
    for use, before, after in (
        ("repartition", old.repartition, new.repartition),
        ("changelog", old.changelogs, new.changelogs),
    ):
        for name in sorted(before | after):
            yield _internal(name, use, name in before, name in after, there)
    same = old.application_id == new.application_id
    for name in sorted(old.reads | new.reads):
        if name not in new.reads:
            yield TopicFate(name, "input", Fate.GONE, note="no longer read; its committed offsets stay")
        elif name not in old.reads or not same:
            yield TopicFate(name, "input", Fate.NEW, note="no committed offsets: read as its offset_reset demands")
        else:
            yield TopicFate(name, "input", Fate.KEPT)
    for name in sorted(old.writes | new.writes):
        fate = Fate.GONE if name not in new.writes else Fate.KEPT if name in old.writes else Fate.NEW
        yield TopicFate(name, "output", fate)


def _internal(name: str, use: str, was: bool, now: bool, there: InKafka) -> TopicFate:
    records = there.records.get(name)
    if not now:
        unread = there.unread.get(name, 0)
        note = f"{unread:,} unprocessed records will be lost" if unread else ""
        return TopicFate(name, use, Fate.ORPHANED, records, note)
    has, wants = there.partitions.get(name), there.wanted.get(name)
    if has is not None and wants is not None and has != wants:
        note = f"it has {has} partitions and needs {wants}: the application would not start"
        return TopicFate(name, use, Fate.REFUSED, records, note)
    if was:
        return TopicFate(name, use, Fate.KEPT, records)
    note = "" if has is None else "the topic exists already; its records will be read"
    return TopicFate(name, use, Fate.NEW, records, note)


# ---- stores ----


def _stores(old: Description, new: Description, kafka: InKafka | None) -> Iterable[StoreFate]:
    before, after = old.stores, new.stores
    same = old.application_id == new.application_id
    gone = [before[name] for name in before if name not in after or not same]
    for name, (sub, store) in after.items():
        if not same:
            note = f"a new application.id takes over nothing of {old.application_id!r}"
            yield StoreFate(name, Fate.REBUILT, None, sub.id, note=note)
        elif name in before:
            was, stored = before[name]
            fate, note = _compared(stored, store, was, sub, new.reads)
            yield _with_figures(StoreFate(name, fate, was.id, sub.id, note=note), store, kafka)
        elif sub.is_global or store.changelog in new.reads:
            found = StoreFate(
                name, Fate.RESTORED, None, sub.id, note=f"filled from topic {store.changelog or ''}".strip()
            )
            yield _with_figures(found, store, kafka)
        else:
            yield StoreFate(name, Fate.NEW, None, sub.id, note=_origin(store, sub, gone, _inputs(sub, new) & old.reads))
    for was, store in gone:
        yield StoreFate(store.name, Fate.ORPHANED, was.id, None, note=_renamed(store, old.generated_names))


def _compared(
    was: DescribedStore,
    now: DescribedStore,
    there: DescribedSubtopology,
    here: DescribedSubtopology,
    reads: frozenset[str],
) -> tuple[Fate, str]:
    if wrong := _unreadable(was, now):
        return Fate.REBUILT, f"{wrong}: reset the application, or give the store another name"
    if here.is_global:
        return Fate.KEPT, ""
    moved = there.id != here.id
    if now.changelog is None:
        lost = moved or not now.persistent or was.layout != now.layout
        why = "it has no changelog to be restored from"
        return (Fate.REBUILT, why) if lost else (Fate.KEPT, "")
    if was.changelog != now.changelog:
        if now.changelog in reads:
            return Fate.RESTORED, f"from its source topic {now.changelog}, which is its changelog now"
        return Fate.REBUILT, f"its changelog is now {now.changelog}, which does not have its rows"
    if moved:
        return Fate.MOVED, f"its tasks were {there.id}_*: restored from {now.changelog}"
    if not now.persistent:
        return Fate.RESTORED, "in memory: at every start"
    if not was.persistent:
        return Fate.RESTORED, "was in memory"
    if was.layout != now.layout:
        return Fate.RESTORED, f"was {was.layout}, is {now.layout}"
    return Fate.KEPT, ""


def _unreadable(was: DescribedStore, now: DescribedStore) -> str | None:
    """Returns why the new store could not read what the old one wrote."""
    if was.kind != now.kind and _FORMS.get(was.kind, was.kind) != _FORMS.get(now.kind, now.kind):
        return f"was a {was.kind} store, is a {now.kind} store, whose changelog has another form"
    for part, before, after in (("keys", was.key_serde, now.key_serde), ("values", was.value_serde, now.value_serde)):
        if before is not None and after is not None and format_of(before) != format_of(after):
            return f"its {part} were written by serde {before} and are read by {after}"
    return None


def _with_figures(found: StoreFate, store: DescribedStore, kafka: InKafka | None) -> StoreFate:
    if kafka is None or found.fate not in (Fate.MOVED, Fate.RESTORED) or store.changelog is None:
        return found
    records = kafka.records.get(store.changelog, 0)
    return StoreFate(
        found.name, found.fate, found.was, found.now, records, round(records / RESTORED_PER_S, 1), found.note
    )


def _origin(
    store: DescribedStore,
    sub: DescribedSubtopology,
    gone: Iterable[tuple[DescribedSubtopology, DescribedStore]],
    read_before: frozenset[str],
) -> str:
    if like := [old.name for was, old in gone if (was.id, old.kind) == (sub.id, store.kind)]:
        return f"begins empty; is it {like[0]} under another name?"
    if read_before:
        return f"begins empty: records of {', '.join(sorted(read_before))} that were processed before are not in it"
    return "begins empty"


def _inputs(sub: DescribedSubtopology, program: Description) -> frozenset[str]:
    """Returns the user's topics from which its records come, directly or through repartition topics."""
    found, asked = set(sub.reads), [sub]
    inner = set(program.repartition_topics)
    while asked:
        reads = asked.pop().reads & inner
        writers = [each for each in program.subtopologies if each.writes & reads and not each.reads <= found]
        found.update(*(each.reads for each in writers))
        asked += writers
    return frozenset(found - inner)


def _renamed(store: DescribedStore, generated: frozenset[str]) -> str:
    if store.name in generated:
        return f"its name was generated, and changes with the operators before it: name it by {_named_by(store)}"
    return ""


_NAMED_BY_KIND = {
    "suppression buffer": "Suppressed.….with_name",
    "deduplication": "Deduplicated.as_",
    "outer join": "StreamJoined.as_",
    "buffer of a stream-table join": "Joined.as_",
}
_NAMED_BY_PREFIX = {
    "KSTREAM-JOIN": "StreamJoined.as_",
    "KSTREAM-OUTER": "StreamJoined.as_",
    "KTABLE-FK-JOIN-SUBSCRIPTION": "TableJoined.as_",
}


def _named_by(store: DescribedStore) -> str:
    """The option that gives a store of the DSL its name."""
    by_prefix = (option for prefix, option in _NAMED_BY_PREFIX.items() if store.name.startswith(prefix))
    return _NAMED_BY_KIND.get(store.kind) or next(by_prefix, "Materialized.as_")


# ---- tasks ----


def tasks_of(subtopology: int | None) -> str:
    """Returns the tasks of a sub-topology as a pattern for users; ``-`` for none."""
    return "-" if subtopology is None else f"{subtopology}_*"


def _tasks(old: Description, new: Description, there: InKafka) -> Iterable[TaskFate]:
    before = [sub for sub in old.subtopologies if not sub.is_global]
    after = [sub for sub in new.subtopologies if not sub.is_global]
    if old.application_id != new.application_id:
        yield from (TaskFate(Fate.NEW, None, sub.id, there.tasks.get(sub.id)) for sub in after)
        yield from (TaskFate(Fate.GONE, sub.id, None) for sub in before)
        return
    partner = _partners(before, after)
    for sub in after:
        was = partner.get(sub.id)
        if was is None:
            yield TaskFate(Fate.NEW, None, sub.id, there.tasks.get(sub.id))
            continue
        note = _difference(was, sub)
        fate = Fate.MOVED if was.id != sub.id else Fate.CHANGED if note else Fate.KEPT
        yield TaskFate(fate, was.id, sub.id, there.tasks.get(sub.id), note)
    matched = {sub.id for sub in partner.values()}
    yield from (TaskFate(Fate.GONE, sub.id, None) for sub in before if sub.id not in matched)


def _partners(
    before: Iterable[DescribedSubtopology], after: Iterable[DescribedSubtopology]
) -> dict[int, DescribedSubtopology]:
    """Returns, for each new sub-topology, the old one with which it has most in common; each old one only once."""
    likeness = sorted(
        ((_common(was, now), was.id == now.id, -now.id, was, now) for was in before for now in after),
        key=lambda each: each[:3],
        reverse=True,
    )
    found: dict[int, DescribedSubtopology] = {}
    for common, _, _, was, now in likeness:
        if common > (0, 0) and now.id not in found and was.id not in {each.id for each in found.values()}:
            found[now.id] = was
    return found


def _common(was: DescribedSubtopology, now: DescribedSubtopology) -> tuple[int, int]:
    return len(_names(was) & _names(now)), len(was.reads & now.reads)


def _names(sub: DescribedSubtopology) -> set[str]:
    return {store.name for store in sub.stores}


def _difference(was: DescribedSubtopology, now: DescribedSubtopology) -> str:
    parts = []
    for what, before, after in (("reads", was.reads, now.reads), ("stores", _names(was), _names(now))):
        changed = [*(f"+{name}" for name in sorted(after - before)), *(f"-{name}" for name in sorted(before - after))]
        if changed:
            parts.append(f"{what} {' '.join(changed)}")
    return ", ".join(parts)
