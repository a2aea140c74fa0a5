"""The job of the pipeline's benchmarks does what its docstring says."""

from __future__ import annotations

import penstock as ps
from benchmarks.pipeline.job import COUNTED, PRICED, STORES, page_views, topology


def test_every_view_is_counted_and_every_profile_has_a_price() -> None:
    dataset = page_views(records=3_000, users=100)
    with ps.TopologyTestDriver(topology()) as driver:
        for rows_of in (dataset.tables, dataset.streams):
            for topic, rows in sorted(rows_of.items(), reverse=True):
                pipe = driver.create_input_topic(topic, ps.Serdes.bytes(), ps.Serdes.bytes())
                for key, value, timestamp in rows():
                    pipe.pipe_input(key, value, timestamp)
        counts = driver.create_output_topic(COUNTED, ps.Serdes.string(), ps.Serdes.long()).read_key_values_to_map()
        prices = driver.create_output_topic(PRICED, ps.Serdes.string(), ps.Serdes.json()).read_key_values_to_map()
        assert sum(count or 0 for count in counts.values()) == 3_000
        assert len(prices) == 100
        assert driver.get_all_state_stores().keys() >= set(STORES)
