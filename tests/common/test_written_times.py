"""Times as people write them: with a zone they are one moment everywhere, without one it depends on who asks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from penstock.common.written_times import WithoutZone, iso_time, moment, ms_of_iso, ms_of_text

NOON_MS = 1_795_262_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
class TestWithoutZone:
    @pytest.mark.parametrize("rule", WithoutZone)
    @pytest.mark.parametrize("text", ["2026-11-21T12:00:00Z", "2026-11-21T13:00:00+01:00"])
    def test_a_time_with_a_zone_is_the_same_under_each_rule(self, text: str, rule: WithoutZone) -> None:
        assert ms_of_iso(text, rule) == NOON_MS

    @pytest.mark.parametrize(("rule", "ms"), [(WithoutZone.UTC, NOON_MS), (WithoutZone.LOCAL, NOON_MS - 9 * HOUR_MS)])
    def test_a_time_without_one_depends_on_the_rule(self, rule: WithoutZone, ms: int) -> None:
        assert ms_of_iso("2026-11-21T12:00:00", rule) == ms
        assert ms_of_iso("2026-11-21", rule) == ms - 12 * HOUR_MS

    def test_a_time_without_one_may_be_refused(self) -> None:
        with pytest.raises(ValueError, match="names no zone"):
            ms_of_iso("2026-11-21T12:00:00", WithoutZone.REFUSED)

    @pytest.mark.parametrize("rule", WithoutZone)
    @pytest.mark.parametrize("text", ["yesterday", "12:30", "2026-21-11"])
    def test_a_text_that_is_no_time_is_refused(self, text: str, rule: WithoutZone) -> None:
        with pytest.raises(ValueError, match=r"Invalid isoformat string|month must be"):
            ms_of_iso(text, rule)


@pytest.mark.parametrize("text", ["1970-01-01T00:00:01.001Z", "1970-01-01T00:00:01.001999Z"])
def test_milliseconds_are_exact_and_rounded_down(text: str) -> None:
    assert ms_of_iso(text, WithoutZone.REFUSED) == 1001


@pytest.mark.parametrize("text", [str(NOON_MS), "2026-11-21T12:00:00Z"])
def test_ms_and_iso_8601_are_read(text: str) -> None:
    assert ms_of_text(text) == NOON_MS


@pytest.mark.parametrize("text", ["2026-11-21T12:00:00", "1969-12-31T23:59:59Z", "-1", "soon"])
def test_a_text_that_is_neither_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(ValueError, match="such as 2026-01-31T12:00:00Z"):
        ms_of_text(text)


@pytest.mark.parametrize("ms", [0, 1, NOON_MS, NOON_MS + 999])
def test_a_time_that_is_written_can_be_read_again(ms: int) -> None:
    written = iso_time(ms)
    assert written is not None
    assert ms_of_text(written) == ms


@pytest.mark.usefixtures("tokyo")
def test_a_moment_names_its_zone_and_that_of_this_machine() -> None:
    assert moment(NOON_MS + 5) == "2026-11-21T12:00:00.005Z (here 2026-11-21T21:00:00+09:00)"


def test_a_moment_has_one_text_if_the_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as there:
        there.setenv("TZ", "UTC")
        time.tzset()
        found = moment(NOON_MS)
    time.tzset()
    assert found == "2026-11-21T12:00:00.000Z"
    assert moment(2**63 - 1) == f"{2**63 - 1} ms since 1970"


def test_a_time_after_the_year_9999_has_no_text() -> None:
    assert iso_time(2**63 - 1) is None


@pytest.mark.usefixtures("tokyo")
def test_a_moment_that_this_machines_zone_does_not_have_is_in_utc() -> None:
    assert moment(ms_of_iso("9999-12-31T23:59:59", WithoutZone.UTC)) == "9999-12-31T23:59:59.000Z"
