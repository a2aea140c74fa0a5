"""Checks of the state when the faults have passed. Functions of records; each returns one sentence per violation.

At least once a record may be processed again, so counts may be higher than the truth, never lower; exactly once they
are the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from penstock.common.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.testing.chaos.numbered import Stamped, Tally

_SHOWN = 3
T = TypeVar("T")


def numbered(
    records: Iterable[tuple[str, int]], expected: Mapping[str, int], otherwise: str = "the input itself is wrong"
) -> list[str]:
    """The input is complete: each key's numbers from 0 on, in order, each once."""
    following = dict.fromkeys(expected, 0)
    wrong = []
    for key, number in records:
        if number != following.get(key):
            wrong.append(f"{key}: number {number} where {following.get(key)} comes next")
        following[key] = number + 1
    wrong += _differences(expected, following)
    return in_a_sentence(otherwise, wrong)


def complete(records: Iterable[tuple[str, Stamped]], expected: Mapping[str, int]) -> list[str]:
    """Nothing is lost and nothing invented: of each key, exactly the numbers below ``expected`` were seen."""
    seen = {key: bytearray(count) for key, count in expected.items()}
    invented = []
    for key, (number, _) in records:
        if key in seen and number < len(seen[key]):
            seen[key][number] = 1
        else:
            invented.append(f"{key}: number {number}")
    lost = [
        f"{key}: {marks.count(0)} of {len(marks)}, the first is {marks.index(0)}"
        for key, marks in seen.items()
        if 0 in marks
    ]
    return in_a_sentence("lost", lost) + in_a_sentence("never sent, yet processed", invented)


def in_order(records: Iterable[tuple[str, Stamped]]) -> list[str]:
    """Within one attempt, each key's numbers ascend one by one, wherever the attempt began."""
    last: dict[tuple[str, str], int] = {}
    wrong = []
    for key, (number, attempt) in records:
        before = last.get((key, attempt))
        if before is not None and number != before + 1:
            wrong.append(f"{key}: {number} after {before} in attempt {attempt}")
        last[key, attempt] = number
    return in_a_sentence("out of order within an attempt", wrong)


def followed(tallies: Mapping[str, Tally], expected: Mapping[str, int]) -> list[str]:
    """State was never older than the offsets it was committed with: each key reached its end without a gap."""
    gaps = [f"{key}: {tally['gaps']} missing" for key, tally in tallies.items() if tally["gaps"]]
    ends = _differences(expected, {key: tally["next"] for key, tally in tallies.items()})
    return in_a_sentence("state older than its offsets", gaps) + in_a_sentence(
        "state that does not end where the input does", ends
    )


def counted(counts: Mapping[str, int], expected: Mapping[str, int], where: str = "") -> list[str]:
    """No count is below the truth, and no key is missing or made up."""
    low = [f"{key}: {counts.get(key)} of {count}" for key, count in expected.items() if counts.get(key, 0) < count]
    made_up = [str(key) for key in counts.keys() - expected.keys()]
    return in_a_sentence(f"{where}counted too little", low) + in_a_sentence(f"{where}made up", made_up)


def joined(records: Iterable[tuple[str, tuple[int, int]]], expected: Mapping[str, Set[int]]) -> list[str]:
    """Each number that has a mark met it, and its own, and no other number did."""
    met: dict[str, set[int]] = {key: set() for key in expected}
    wrong = []
    for key, (number, mark) in records:
        if number != mark or number not in expected.get(key, ()):
            wrong.append(f"{key}: number {number} with mark {mark}")
        else:
            met[key].add(number)
    lost = [
        f"{key}: {len(numbers - met[key])} of {len(numbers)}, the first is {min(numbers - met[key])}"
        for key, numbers in expected.items()
        if numbers - met[key]
    ]
    return in_a_sentence("not joined", lost) + in_a_sentence("joined wrongly", wrong)


def results(what: str, found: Counter[T], must: Set[T], may: Set[T], once: bool) -> list[str]:
    """Each result in ``must`` is there, and none that is neither in it nor in ``may``. With ``once``, none is there
    twice."""
    lost = [str(result) for result in sorted(must - found.keys(), key=str)]
    made_up = [str(result) for result in sorted(found.keys() - must - may, key=str)]
    again = [f"{result} {count} times" for result, count in found.items() if count > 1] if once else []
    return (
        in_a_sentence(f"{what}: lost", lost)
        + in_a_sentence(f"{what}: made up", made_up)
        + in_a_sentence(f"{what}: again", again)
    )


def joined_once(records: Iterable[tuple[str, tuple[int, int]]]) -> list[str]:
    """Exactly once: no number met its mark again."""
    times = Counter((key, number) for key, (number, _) in records)
    return in_a_sentence(
        "joined again", [f"{key}: number {number}" for (key, number), count in times.items() if count > 1]
    )


def each_once(
    records: Iterable[tuple[str, Stamped]],
    counts: Mapping[str, int],
    tallies: Mapping[str, Tally],
    expected: Mapping[str, int],
) -> list[str]:
    """Exactly once: nothing is processed again, by any task, and each key's numbers ascend one by one."""
    again = [f"{key}: {tally['repeats']}" for key, tally in tallies.items() if tally["repeats"]]
    return [
        *numbered(((key, stamped.number) for key, stamped in records), expected, "what was processed is not the input"),
        *in_a_sentence("counted otherwise than once", _differences(expected, counts)),
        *in_a_sentence("state has seen records again", again),
    ]


def no_transaction_is_open(stable: Mapping[TopicPartition, int], high: Mapping[TopicPartition, int]) -> list[str]:
    """At rest every reader of committed records comes to the end. Ask for ``high`` before ``stable``, since the broker
    writes to its own topics at any time."""
    held = [f"{at}: {stable[at]} of {end}" for at, end in high.items() if stable[at] < end]
    return in_a_sentence("a transaction is open", held)


def poison_counted(dropped: int, written: int) -> list[str]:
    """Records that cannot be decoded are dropped, and counted once."""
    return [] if dropped == written else [f"{written} records could not be decoded, {dropped} were counted as dropped"]


def lettered(bad: Iterable[bytes], letters: Iterable[bytes], exactly: bool) -> list[str]:
    """Each record that cannot be decoded has a dead letter: at least one, or exactly one. Both are given by their
    keys."""
    meant, found = Counter(bad), Counter(letters)
    wrong = [
        f"{key.decode()}: {found[key]} for {meant[key]} records"
        for key in sorted(meant.keys() | found.keys())
        if (found[key] != meant[key] if exactly else found[key] < meant[key])
    ]
    return in_a_sentence("dead letters do not match the bad records", wrong)


def equal(what: str, found: Mapping[str, object], meant: Mapping[str, object]) -> list[str]:
    """Two views of the same rows agree."""
    return in_a_sentence(what, _differences(meant, found))


def _differences(meant: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    keys = [*meant, *(found.keys() - meant.keys())]
    return [f"{key}: {found.get(key)} instead of {meant.get(key)}" for key in keys if found.get(key) != meant.get(key)]


def in_a_sentence(what: str, cases: list[str]) -> list[str]:
    """Returns one sentence of some cases and the number of the others; none if there are no cases."""
    if not cases:
        return []
    rest = f"; and {len(cases) - _SHOWN:,} more" if len(cases) > _SHOWN else ""
    return [f"{what}: {'; '.join(islice(cases, _SHOWN))}{rest}"]
