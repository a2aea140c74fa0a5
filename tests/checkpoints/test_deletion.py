"""What may be deleted, as a function over a listing."""

from __future__ import annotations

from penstock.checkpoints.deletion import plan_deletion
from penstock.checkpoints.limits import DELETION_DELAY_MS, HAND_OVER_DELAY_MS
from penstock.checkpoints.listing import ListedFile, ListedManifest, Listing
from penstock.checkpoints.manifest import ManifestName

OLD = DELETION_DELAY_MS
YOUNG = DELETION_DELAY_MS - 1
NOW_MS = 100 * DELETION_DELAY_MS + HAND_OVER_DELAY_MS


def file(name: str, age_ms: int, size: int = 1) -> ListedFile:
    return ListedFile(f"files/{name}", size, NOW_MS - age_ms)


def manifest(number: int, age_ms: int, *files: str, new: str = "", task: str = "0_0") -> ListedManifest:
    place = ManifestName(task, number // 10, number % 10)
    needed = {f"files/{name}": 1 for name in files}
    return ListedManifest(str(place), place, NOW_MS - age_ms, needed, frozenset([f"files/{new}"] if new else []))


def hand_over(number: int, age_ms: int, *files: str) -> ListedManifest:
    return ListedManifest(f"hand-overs/{number:020}.json", None, NOW_MS - age_ms, dict.fromkeys(files, 1))


def deleted(
    *listed: ListedManifest | ListedFile, hand_overs: tuple[ListedManifest, ...] = (), unknown: tuple[str, ...] = ()
) -> set[str]:
    manifests = tuple(it for it in listed if isinstance(it, ListedManifest))
    files = tuple(it for it in listed if isinstance(it, ListedFile))
    plan = plan_deletion(Listing(NOW_MS, manifests, hand_overs, files, unknown))
    return {*plan.manifests, *plan.files}


def test_the_two_newest_of_each_task_stay_however_old() -> None:
    files = [file(name, 9 * OLD) for name in "abcd"]
    first, second, third = (manifest(10 + number, 5 * OLD, "abcd"[number]) for number in range(3))
    other = manifest(10, 9 * OLD, "d", task="0_1")
    assert deleted(*files, first, second, third, other) == {first.name}


def test_one_stays_while_a_restore_may_read_it() -> None:
    files = [file(name, 9 * OLD) for name in "abc"]
    first, second = manifest(11, 5 * OLD, "a"), manifest(12, 4 * OLD, "b")
    assert deleted(*files, first, second, manifest(13, YOUNG, "c")) == set()
    assert deleted(*files, first, second, manifest(13, OLD, "c")) == {first.name}


def test_a_late_manifest_of_an_early_holder_stays_for_a_while_too() -> None:
    files = [file(name, 9 * OLD) for name in "abc"]
    second, third = manifest(21, 5 * OLD, "b"), manifest(22, 5 * OLD, "c")
    assert deleted(*files, manifest(11, YOUNG, "a"), second, third) == set()
    assert deleted(*files, late := manifest(11, OLD, "a"), second, third) == {late.name}


def test_files_go_if_they_are_old_and_no_manifest_names_them() -> None:
    assert deleted(file("old", OLD), file("young", YOUNG)) == {"files/old"}
    kept = manifest(11, OLD, "old")
    assert deleted(file("old", OLD), kept) == set()


def test_the_files_of_a_manifest_that_goes_follow_when_it_is_gone() -> None:
    files = [file(name, 9 * OLD) for name in "abc"]
    first, second, third = (manifest(10 + number, 5 * OLD, "abc"[number]) for number in range(3))
    assert deleted(*files, first, second, third) == {first.name}
    assert deleted(*files, second, third) == {"files/a"}


def test_one_that_lacks_files_counts_for_nothing() -> None:
    files = [file(name, 9 * OLD) for name in "abc"]
    first, second = manifest(11, 5 * OLD, "a"), manifest(12, 5 * OLD, "b")
    lacking, newest = manifest(13, 5 * OLD, "gone"), manifest(14, 5 * OLD, "c")
    short = manifest(13, 5 * OLD, "short")
    assert deleted(*files[:2], first, second, lacking) == set(), "the next upload may use files of the newest one"
    for broken in (lacking, short):
        assert deleted(*files, file("short", 9 * OLD, size=0), first, second, broken, newest) - {"files/short"} == {
            first.name,
            broken.name,
        }


def test_one_whose_files_were_uploaded_long_before_it_counts_for_nothing() -> None:
    files = [file("a", 9 * OLD), file("b", 9 * OLD), file("c", 6 * OLD), file("d", 9 * OLD)]
    first, second = manifest(11, 5 * OLD, "a"), manifest(12, 5 * OLD, "b")
    late, newest = manifest(13, 5 * OLD, "c", new="c"), manifest(14, 5 * OLD, "d")
    assert deleted(*files, first, second, late, newest) == {first.name, late.name}


def test_all_files_stay_while_nobody_knows_what_a_manifest_names() -> None:
    assert deleted(file("old", OLD), unknown=("tasks/0_0/of-a-newer-penstock",)) == set()
    damaged = ListedManifest("tasks/0_0/1", ManifestName("0_0", 1, 1), 0, None)
    assert deleted(file("old", OLD), damaged) == set()
    newer = [manifest(number, OLD, "new") for number in (21, 22)]
    assert deleted(file("new", OLD), file("old", OLD), damaged, *newer) == {damaged.name}
    assert deleted(file("new", OLD), file("old", OLD), *newer) == {"files/old"}


def test_the_last_hand_over_stays_with_its_files() -> None:
    files = [ListedFile(f"hand-over-files/{name}", 1, 0) for name in "abc"]
    first, second = hand_over(1, 9 * OLD, "hand-over-files/a"), hand_over(2, OLD, "hand-over-files/b")
    assert deleted(*files, hand_overs=(first, second)) == {first.name, "hand-over-files/c"}
    younger = hand_over(2, YOUNG, "hand-over-files/b")
    assert deleted(*files, hand_overs=(first, younger)) == {"hand-over-files/c"}
    damaged = ListedManifest(second.name, None, second.created_ms, None)
    assert deleted(*files, hand_overs=(first, damaged)) == {second.name}


def test_files_of_a_backfill_that_has_not_handed_over_yet_stay_for_days() -> None:
    early = ListedFile("hand-over-files/early", 1, NOW_MS - HAND_OVER_DELAY_MS)
    late = ListedFile("hand-over-files/late", 1, NOW_MS - HAND_OVER_DELAY_MS + 1)
    assert deleted(early, late) == {early.name}
