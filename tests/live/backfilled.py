"""Cases whose history is played by Spark, and the rest by the live application."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from penstock.common.config import StreamsConfig
from penstock.pipeline.backfill.backfill import backfill
from tests.live.bunches import Bunch, Case
from tests.live.play import Expected, Outcome, compared, excluded, halves, play_live
from tests.live.rig import LiveBunch
from tests.parity.ops_own import IDLE


def excluded_from_backfill(case: Case) -> str | None:
    """Returns the reason why a case cannot be compared; None if it can."""
    if IDLE in case["config"]:
        return "goes on by the wall clock, which history has not"
    return excluded(case)


def play_backfilled(bunch: Bunch, broker: str, application_id: str, state: Path) -> Outcome:
    """Plays the first half by Spark, the second one live.

    Spark takes the records of repartition topics by their times, as a case does whose records come in order."""
    cut = [halves(bunch, case, in_order=True) for case in bunch.cases]
    expected = Expected(bunch, application_id, cut)
    with closing(LiveBunch(bunch, broker, application_id)) as live:
        for first, _ in cut:
            live.send((*first.filled, *first.records))
        config = StreamsConfig.of(live.configuration(state / "history"))
        backfill(bunch.built.topology, config, "local[2]")
        stores = play_live(live, [second for _, second in cut], state / "live", {})
        return compared(bunch, expected, live.written(), stores, application_id, backfilled=True)
