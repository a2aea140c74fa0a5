"""The sentence for users while members of another protocol keep an application out of its group."""

from __future__ import annotations

from structlog.testing import capture_logs

from penstock.cluster.coordinator_shell.kept_out import AGAIN_S, STILL_AGAIN_S, KeptOut
from penstock.common.log import logger
from penstock.kafka.contracts import OtherProtocolError

NOON_S = 12 * 3600.0
OTHERS = OtherProtocolError("group 'g' has members of another protocol: m (client id c, host h)")


def test_members_of_a_stopped_application_are_waited_for_until_their_session_has_timed_out() -> None:
    with capture_logs() as logs:
        it = KeptOut(45.0, logger(__name__))
        assert it.notice is None
        for now_s in (7.0, 8.0, 17.0, 27.0, 37.0, 47.0, 56.9):
            assert it.refused(OTHERS, now_s, NOON_S + now_s) == AGAIN_S
            assert it.notice == (
                "group 'g' has members of another protocol: m (client id c, host h). Waiting until they have left, "
                "which takes until 12:00:57 UTC at the latest if that application has been stopped"
            )
        it.joined()
        it.joined()
    assert it.notice is None
    assert [each["event"] for each in logs] == [
        "waiting for other members of the group to leave",
        "the other members have left the group",
    ]


def test_an_application_that_runs_is_waited_for_without_end_and_the_sentence_says_to_stop_it() -> None:
    with capture_logs() as logs:
        it = KeptOut(45.0, logger(__name__))
        patience = [it.refused(OTHERS, float(now_s), NOON_S) for now_s in range(0, 3600, 5)]
        assert patience == [AGAIN_S] * 10 + [STILL_AGAIN_S] * 710
        assert str(it.notice).startswith(str(OTHERS))
        assert "longer than a session.timeout.ms of 45 s" in str(it.notice)
        assert "stop it, or give this one another application.id" in str(it.notice)
    assert len(logs) == 2
    it.joined()
    assert it.refused(OTHERS, 4000.0, NOON_S) == AGAIN_S
    assert "at the latest" in str(it.notice)


def test_an_outage_of_the_broker_does_not_count() -> None:
    it = KeptOut(45.0, logger(__name__))
    it.refused(OTHERS, 0.0, NOON_S)
    assert it.refused(OTHERS, 1000.0, NOON_S) == AGAIN_S
    assert "12:00:40 UTC" in str(it.notice)
