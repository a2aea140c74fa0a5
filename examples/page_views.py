"""Page views joined with the profiles of users: views per region and minute, and, in the second version, visits.

``app`` is the first version. ``app_with_visits`` is the second one, an application of its own: it also keeps the visits
of each user (sessions). ``make demo-pipeline`` runs the first version live and gives the second one its history by
Spark: docs/PIPELINE.md. State and checkpoints are in the folder ``page-views-files`` below the current one.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import msgspec

import penstock as ps

MINUTE = timedelta(minutes=1)
GAP = timedelta(minutes=5)
# Files bring hours of views within seconds, one partition before the other: a short grace would drop the slower one's.
GRACE = timedelta(days=1)


class Profile(msgspec.Struct, frozen=True):
    """A user as the website knows it."""

    name: str
    region: str


class View(msgspec.Struct, frozen=True):
    """One page that a user has looked at, for some seconds."""

    page: str
    seconds: int


class RegionalView(msgspec.Struct, frozen=True):
    """A view, with the region of its user."""

    page: str
    seconds: int
    region: str


class Visit(msgspec.Struct, frozen=True):
    """The views of a user of which each follows the one before within five minutes."""

    pages: int
    seconds: int


TEXT = ps.Serdes.string()
REGIONAL_VIEWS = ps.Serdes.json(RegionalView)


def topology(visits: bool = False) -> ps.Topology:
    """Returns the first version of the topology, or, with ``visits``, the second one."""
    builder = ps.StreamsBuilder()
    profiles = builder.table(
        "profiles", ps.Consumed.with_(TEXT, ps.Serdes.json(Profile)), ps.Materialized.as_("profiles")
    )
    views = builder.stream("page-views", ps.Consumed.with_(TEXT, ps.Serdes.json(View))).join(
        profiles, lambda view, profile: RegionalView(view.page, view.seconds, profile.region)
    )
    (
        views.group_by(lambda _, view: view.region, ps.Grouped.with_(TEXT, REGIONAL_VIEWS))
        .windowed_by(ps.TimeWindows.of_size_and_grace(MINUTE, GRACE))
        .count(ps.Materialized.as_("views-per-region"))
        .to_stream()
        .map(lambda window, count: (f"{window.key}@{window.window.start}", count))
        .to("region-views", ps.Produced.with_(TEXT, ps.Serdes.long()))
    )
    if visits:
        (
            views.group_by_key(ps.Grouped.with_(TEXT, REGIONAL_VIEWS))
            .windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(GAP, GRACE))
            .aggregate(
                lambda: Visit(0, 0),
                lambda _, view, visit: Visit(visit.pages + 1, visit.seconds + view.seconds),
                lambda _, one, other: Visit(one.pages + other.pages, one.seconds + other.seconds),
                ps.Materialized.as_("visits").with_value_serde(ps.Serdes.json(Visit)),
            )
        )
    return builder.build()


def _application(application_id: str, visits: bool) -> ps.KafkaStreams:
    files = Path("page-views-files").resolve()
    return ps.KafkaStreams(
        topology(visits),
        {
            "application.id": application_id,
            "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
            "application.server": "127.0.0.1:0",
            "state.dir": files / "state",
            "state.checkpoint.uri": str(files / "checkpoints"),
        },
    )


app = _application("page-views", visits=False)
app_with_visits = _application("page-views-with-visits", visits=True)

if __name__ == "__main__":
    ps.run(app)
