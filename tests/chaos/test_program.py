"""The program, by the test driver: without faults its results are the closed form."""

from __future__ import annotations

import penstock as ps
from tests.chaos import checks, program
from tests.chaos.feeder import KEYS, expected, key, rounds
from tests.chaos.program import Stamped

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()


def test_without_faults_every_check_holds_and_nothing_is_repeated() -> None:
    truth = {"a": 3, "b": 2}
    with ps.TopologyTestDriver(program.topology(), {"application.id": "chaos"}) as driver:
        numbers = driver.create_input_topic(program.INPUT, STRING, LONG)
        output = driver.create_output_topic(program.OUTPUT, STRING, LONG)
        for name, count in truth.items():
            for number in range(count):
                numbers.pipe_input(name, number)
        counts = {name: row.value for name, row in driver.get_timestamped_key_value_store(program.COUNTS).all()}
        tallies = {name: row.value for name, row in driver.get_timestamped_key_value_store(program.TALLIES).all()}
        assert dict(output.read_key_values_to_list()) == counts
    assert checks.counted(counts, truth) == checks.followed(tallies, truth) == []
    assert counts == truth
    assert [tally["repeats"] for tally in tallies.values()] == [0, 0]


def test_what_is_stamped_reads_back() -> None:
    assert Stamped.of(str(Stamped(17, "3f2a9c1e"))) == Stamped(17, "3f2a9c1e")


def test_the_feeder_writes_whole_rounds_of_all_keys() -> None:
    assert rounds(500_000) == 500
    assert rounds(500_001) == 501
    assert len(expected(500_000)) == KEYS
    assert set(expected(500_001).values()) == {501}
    assert key(7) == "k0007"
