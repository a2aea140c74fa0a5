"""A checkpoint is compared with what the task expects before its rows are trusted."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.checkpoints.fitness import ExpectedInput, ExpectedState, ExpectedStore, judge
from penstock.checkpoints.manifest import CheckpointManifest, InputInCheckpoint, StoreInCheckpoint

COUNTS = ExpectedStore("rows", "app-counts-changelog", "id-1")
KEPT_NOWHERE = ExpectedStore("rows")


def checkpoint(lines_id: str | None = "id-lines", **stores: StoreInCheckpoint) -> CheckpointManifest:
    return CheckpointManifest(
        application_id="app",
        task="0_3",
        epoch=7,
        sequence=1,
        taken_at_ms=0,
        stores=stores,
        inputs={"lines": {3: InputInCheckpoint(20, "", lines_id)}},
        files={},
    )


def counts(
    form: str = "rows", topic: str | None = "app-counts-changelog", topic_id: str | None = "id-1"
) -> StoreInCheckpoint:
    return StoreInCheckpoint(form, topic, topic_id, 5)


def expected(lines_id: str | None = "id-lines", committed: int = 20, **stores: ExpectedStore) -> ExpectedState:
    return ExpectedState(stores, {"lines": {3: ExpectedInput(committed, lines_id)}})


def test_one_that_fits_is_used_as_it_is_also_if_records_were_processed_since() -> None:
    for committed in (20, 30):
        verdict = judge(checkpoint(counts=counts()), expected(counts=COUNTS, committed=committed))
        assert (verdict.wipe, verdict.notices, verdict.refused) == ({}, (), None)


def test_a_store_in_another_form_is_wiped_and_the_others_stay() -> None:
    verdict = judge(checkpoint(counts=counts("old rows"), sums=counts()), expected(counts=COUNTS, sums=COUNTS))
    assert verdict.wipe == {"counts": "has rows of the form (old rows), but the program expects (rows)"}
    assert verdict.refused is None


def test_a_changelog_that_was_deleted_and_made_again_is_noticed_by_its_id() -> None:
    verdict = judge(checkpoint(counts=counts(topic_id="id-0"), sums=counts()), expected(counts=COUNTS, sums=COUNTS))
    assert set(verdict.wipe) == {"counts"}
    assert "the changelog app-counts-changelog with the id id-0, which was deleted" in verdict.wipe["counts"]
    unknown = judge(checkpoint(counts=counts(topic_id=None)), expected(counts=COUNTS))
    assert (unknown.wipe, unknown.refused) == ({}, None)


def test_a_store_with_another_changelog_is_wiped() -> None:
    verdict = judge(checkpoint(counts=counts(topic="lines"), sums=counts()), expected(counts=COUNTS, sums=COUNTS))
    assert verdict.wipe == {"counts": "had the changelog lines, and now has app-counts-changelog"}


def test_a_store_without_a_changelog_is_used_only_with_the_offsets_of_its_commit() -> None:
    found = checkpoint(counts=counts(), seen=StoreInCheckpoint("rows", None, None, None))
    assert judge(found, expected(counts=COUNTS, seen=KEPT_NOWHERE)).wipe == {}
    later = judge(found, expected(counts=COUNTS, seen=KEPT_NOWHERE, committed=21))
    assert later.wipe == {"seen": "has no changelog, and the task has processed records since the checkpoint"}
    assert later.refused is None


def test_rows_in_another_form_that_no_changelog_has_are_left_alone() -> None:
    found = checkpoint(counts=counts(), seen=StoreInCheckpoint("old rows", None, None, None))
    verdict = judge(found, expected(counts=COUNTS, seen=KEPT_NOWHERE))
    assert verdict.refused is not None
    assert "store 'seen' has rows of the form (old rows)" in verdict.refused


def test_one_of_which_nothing_would_be_left_is_not_downloaded() -> None:
    nothing = judge(checkpoint(), expected(counts=COUNTS))
    assert nothing.refused == "it has no rows of the task's stores"
    wiped = judge(checkpoint(counts=counts("old rows")), expected(counts=COUNTS))
    assert wiped.refused == "store 'counts' has rows of the form (old rows), but the program expects (rows)"


def test_an_input_that_was_deleted_and_made_again_is_reported_and_wipes_nothing() -> None:
    verdict = judge(checkpoint("id-0", counts=counts()), expected(counts=COUNTS))
    assert verdict.wipe == {}
    (notice,) = verdict.notices
    assert "topic lines was deleted and made again" in notice
    assert "up to offset 20 of partition 3" in notice
    assert judge(checkpoint(None, counts=counts()), expected(counts=COUNTS)).notices == ()


def test_a_hand_over_whose_backfill_has_not_committed_its_offsets_is_refused() -> None:
    """Its rows count records that come again. A checkpoint of a live task has only committed ones."""
    handed_over = replace(checkpoint(counts=counts()), sequence=0)
    for committed, refused in ((19, True), (20, False), (30, False)):
        verdict = judge(handed_over, expected(counts=COUNTS, committed=committed))
        assert (verdict.refused is not None) == refused
    assert "up to offset 20, and the application is at 19" in str(
        judge(handed_over, expected(counts=COUNTS, committed=19)).refused
    )
    assert judge(checkpoint(counts=counts()), expected(counts=COUNTS, committed=19)).refused is None
