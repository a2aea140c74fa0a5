"""A store of your own: it keeps the three best scores of each game, in one row.

Topics: ``scores`` (game → score), ``best-scores`` (game → the best scores, highest first). The builder describes the
store, and each task opens one from it. The engine does commits, changelog, restore and queries: docs/STORES.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

import penstock as ps

MOST = 3


@dataclass(frozen=True)
class BestScoresBuilder(ps.StoreBuilder[str, list[int]]):
    """Describes a store of the best scores of each game."""

    kind: ClassVar[str] = "best scores"

    @override
    def open(self, context: ps.StateStoreContext) -> ps.StateStore:
        return BestScores(self, context)


class BestScores(ps.StateStore):
    """The store of one task. Its changes wait in memory for the next commit."""

    queries = (ps.KeyQuery,)

    def __init__(self, builder: BestScoresBuilder, context: ps.StateStoreContext) -> None:
        super().__init__(builder.name, context)
        assert builder.key_serde is not None
        assert builder.value_serde is not None
        self._games, self._scores = builder.key_serde, builder.value_serde
        self._changed: dict[bytes, tuple[list[int], int]] = {}
        self._flushed: dict[bytes, tuple[list[int], int]] = {}

    @override
    def view(self) -> BestScores:
        return self

    def add(self, game: str, score: int) -> bool:
        """Returns True if ``score`` is among the best of ``game``."""
        best = self.best(game)
        better = sorted([*best, score], reverse=True)[:MOST]
        if better == best:
            return False
        self._changed[self._games.serialize(game)] = better, self.context.now()
        return True

    def best(self, game: str) -> list[int]:
        """Returns the best scores of ``game``, highest first."""
        return self._read(self._games.serialize(game), committed=False)

    @property
    @override
    def has_changes(self) -> bool:
        return bool(self._changed)

    @override
    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        changed, self._changed = self._changed, {}
        self._flushed.update(changed)
        for key, (best, timestamp) in changed.items():
            row = self._scores.serialize(best)
            batch.put(self.name, key, row)
            if self.context.log is not None:
                self.context.log(key, row, timestamp)
            yield

    @override
    def batch_written(self) -> None:
        self._flushed.clear()

    @override
    def answer(self, query: ps.Query, after: bytes | None, limit: int, committed: bool) -> Iterator[ps.QueryRow]:
        if not isinstance(query, ps.KeyQuery):
            return super().answer(query, after, limit, committed)
        best = self._read(query.key, committed)
        return iter([ps.QueryRow(query.key, best, None)] if best else [])

    def _read(self, key: bytes, committed: bool) -> list[int]:
        change = None if committed else self._changed.get(key) or self._flushed.get(key)
        if change is not None:
            return change[0]
        row = self.context.committed.get(key)
        return [] if row is None else self._scores.deserialize(row)


class Rank(ps.ContextualProcessor[str, int, str, list[int]]):
    """Forwards the best scores of a game whenever they change."""

    def init(self, context: ps.ProcessorContext[str, list[int]]) -> None:
        super().init(context)
        self.best_scores: BestScores = context.get_state_store("best-scores")

    def process(self, record: ps.Record[str, int]) -> None:
        if self.best_scores.add(record.key, record.value):
            self.context.forward(record.with_value(self.best_scores.best(record.key)))


games, lists = ps.Serdes.string(), ps.Serdes.json(list[int])
builder = ps.StreamsBuilder()
builder.add_state_store(BestScoresBuilder("best-scores", games, lists, persistent=True))
(
    builder.stream("scores", ps.Consumed.with_(games, ps.Serdes.long()))
    .process(Rank, "best-scores")
    .to("best-scores", ps.Produced.with_(games, lists))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "best-scores",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
