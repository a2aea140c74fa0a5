"""Questions that a store does not answer, and pages of stores that pass over many rows: actors are stand-ins."""

from __future__ import annotations

import pytest

from penstock.actors.messages import QueryFailure
from penstock.common.errors import UnknownQueryError
from tests.cluster.test_queries import FakeCoordinator, ask
from tests.cluster.test_queries import coordinator as coordinator


def test_a_kind_of_question_that_the_store_does_not_answer_is_an_error_of_its_own(coordinator: FakeCoordinator) -> None:
    coordinator.actors["b"].failure = QueryFailure.UNKNOWN_QUERY_TYPE
    with pytest.raises(UnknownQueryError, match="'counts' is a timestamped key-value store: no good"):
        ask(lambda queries: queries.approximate_num_entries("counts"))
    coordinator.actors["b"].answered = ("KeyQuery",)
    with pytest.raises(UnknownQueryError, match="store and does not answer CountQuery; it answers: KeyQuery") as error:
        ask(lambda queries: queries.approximate_num_entries("counts"))
    assert (error.value.query, error.value.answered) == ("CountQuery", ("KeyQuery",))
