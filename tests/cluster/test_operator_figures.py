"""The figures of an operator, of all its tasks together."""

from __future__ import annotations

from penstock.cluster.operator_figures import busiest, entered


def test_the_records_of_all_tasks_enter_an_operator() -> None:
    assert entered({"records-rate": [1.0, 2.0, 4.0]}) == 7.0
    assert entered({"process-rate": [8.0, 16.0]}) == 24.0, "of a source whose runs were not measured"


def test_measured_records_count_even_if_there_were_none_and_those_of_the_source_do_not() -> None:
    assert entered({"records-rate": [1.0, 2.0], "process-rate": [64.0]}) == 3.0
    assert entered({"records-rate": [0.0], "process-rate": [64.0]}) == 0.0


def test_records_are_unknown_if_no_task_reports_any() -> None:
    assert entered({}) is None
    assert entered({"records-rate": [], "busy-ratio": [0.5]}) is None


def test_an_operator_is_as_busy_as_on_the_actor_where_it_takes_most() -> None:
    assert busiest({"busy-ratio": [0.25, 0.75, 0.5], "records-rate": [9.0]}) == 0.75
    assert busiest({"busy-ratio": [0.0]}) == 0.0


def test_the_busy_share_is_unknown_if_no_actor_reports_one() -> None:
    assert busiest({}) is None
    assert busiest({"busy-ratio": [], "records-rate": [1.0]}) is None
