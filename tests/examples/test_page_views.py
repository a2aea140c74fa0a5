"""The example of the pipeline: views per region, and visits in its second version."""

from __future__ import annotations

from datetime import UTC, datetime

import penstock as ps
from examples.page_views import TEXT, Profile, View, Visit, topology

NOON = int(datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp() * 1000)


def test_views_are_counted_per_region_and_minute_and_visits_end_after_a_pause() -> None:
    with ps.TopologyTestDriver(topology(visits=True)) as driver:
        profiles = driver.create_input_topic("profiles", TEXT, ps.Serdes.json(Profile))
        views = driver.create_input_topic("page-views", TEXT, ps.Serdes.json(View))
        counts = driver.create_output_topic("region-views", TEXT, ps.Serdes.long())
        profiles.pipe_input("ann", Profile("Ann", "north"), NOON)
        profiles.pipe_input("bob", Profile("Bob", "south"), NOON)
        for second, user, page in (
            (1, "ann", "/"),
            (20, "bob", "/"),
            (30, "ann", "/tea"),
            (61, "ann", "/"),
            (370, "ann", "/"),
        ):
            views.pipe_input(user, View(page, 10), NOON + second * 1000)
        views.pipe_input("unknown", View("/", 10), NOON)
        assert counts.read_key_values_to_map() == {
            f"north@{NOON}": 2,
            f"south@{NOON}": 1,
            f"north@{NOON + 60_000}": 1,
            f"north@{NOON + 360_000}": 1,
        }
        visits = driver.get_session_store("visits")
        assert [value for _, value in visits.fetch("ann")] == [Visit(3, 30), Visit(1, 10)]
        assert [value for _, value in visits.fetch("bob")] == [Visit(1, 10)]
