"""The message about an application that runs already, with another topology."""

from __future__ import annotations

import penstock as ps
from penstock.cluster.programs.topology_difference import difference


def described(*topics: str) -> str:
    builder = ps.StreamsBuilder()
    for topic in topics:
        builder.stream(topic).filter(lambda key, value: True).to(f"{topic}-out")
    return builder.build().describe()


def test_topologies_that_are_the_same_do_not_differ() -> None:
    assert difference(described("a"), described("a")) == ""


def test_the_lines_that_differ_are_reported_and_no_others() -> None:
    message = difference(described("orders"), described("sales")).splitlines()
    assert message[0] == "It runs another topology (-) than this one (+):"
    assert "- Source: KSTREAM-SOURCE-0000000000 (topics: [orders])" in message
    assert "+ Source: KSTREAM-SOURCE-0000000000 (topics: [sales])" in message
    assert not any("KSTREAM-FILTER" in line and "Processor:" in line for line in message), "that one is the same"


def test_of_many_lines_the_first_are_reported() -> None:
    message = difference(described("a"), described(*"bcdefgh")).splitlines()
    assert len(message) == 10
    assert message[-1].startswith("… and ")
