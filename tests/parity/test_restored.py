"""The changelogs that Kafka Streams gets to restore, and the check of what it restores; without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.corpus import BY_HAND, FOUND, read
from tests.parity.restored import differing_stores, taken_over

Case = dict[str, Any]
SUPPRESSED = {
    "name": "a table held back, and a stream that looks into a global one",
    "config": {},
    "topology": [
        {"op": "table", "topic": "in", "key": "string", "value": "string", "store": "s", "id": "t"},
        {"op": "suppress", "in": "t", "wait_ms": 10, "id": "held"},
        {"op": "to_stream", "in": "held", "id": "out"},
        {"op": "global_table", "topic": "all", "key": "string", "value": "string", "id": "g"},
        {"op": "stream_global", "in": "out", "with": "g", "kind": "left", "fn": "value", "id": "j"},
        {"op": "to", "in": "j", "topic": "joined", "id": "end"},
    ],
    "input": [
        {"topic": "all", "key": "x", "value": "X", "ts": 0},
        {"topic": "in", "key": "k", "value": "x", "ts": 1, "headers": {"h": "1"}},
    ],
}


@pytest.mark.parametrize("case", read(FOUND), ids=lambda case: case["name"])
def test_changelogs_are_given_as_they_were_written(case: Case) -> None:
    given = taken_over(case, 7)
    for topic, rows in case["internal"].items():
        if topic.endswith("-changelog"):
            prefix, _, rest = topic.partition("-")
            assert prefix == "parity"
            # A store without a name is called after the topic, which is another one here.
            (records,) = (
                given["topics"][f"restored-7-{name}"]
                for name in (rest, f"c7-{rest}")
                if f"restored-7-{name}" in given["topics"]
            )
            assert [record[:3] for record in records] == rows


def test_topics_are_the_cases_own_and_hold_what_was_piped_in() -> None:
    given = taken_over(SUPPRESSED, 7)
    assert given["topics"]["c7-in"] == [["6b", "78", 1, [["h", "31"]]]]
    assert given["topics"]["c7-all"] == [["78", "58", 0, []]]
    assert given["read"] == ["c7-in"], "a global table is read anew"
    assert {step["topic"] for step in given["topology"] if "topic" in step} == {"c7-in", "c7-all", "c7-joined"}


def test_changelogs_keep_their_headers_by_which_a_buffer_knows_its_format() -> None:
    (changelog,) = (rows for topic, rows in taken_over(SUPPRESSED, 7)["topics"].items() if "SUPPRESS" in topic)
    assert [headers for *_, headers in changelog] == [[["v", "03"]]]


def restored(expected: list[list[str]], entries: list[list[str]], **windows: Any) -> list[tuple[str, str]]:
    given = {"retained_ms": {}, "by_end": {}, **windows}
    return list(differing_stores(given, {"all_stores": {"s": expected}}, {"stores": {"s": entries}}))


def test_entries_that_are_missing_or_too_many_or_in_another_order_are_reported() -> None:
    a, b = ["a", "1 at 5"], ["b", "2 at 6"]
    assert restored([a, b], [a, b]) == []
    assert restored([a, b], [a]) == [("s", "missing [['b', '2 at 6']], more []")]
    assert restored([a], [a, b]) == [("s", "missing [], more [['b', '2 at 6']]")]
    assert restored([a, b], [b, a]) == [("s", "another order")]


def test_windows_that_have_expired_need_not_be_there_but_others_must() -> None:
    old, edge, new = ["[a@0/10]", "1"], ["[a@11/21]", "2"], ["[a@30/40]", "3"]
    retained = {"retained_ms": {"s": 20}, "by_end": {"s": False}}
    assert restored([old, edge, new], [new, edge], **retained) == []
    assert restored([old, edge, new], [new], **retained) == [("s", f"missing [{edge}], more []")]


def test_sessions_expire_by_their_end() -> None:
    session, new = ["[a@0/15]", "1"], ["[a@30/30]", "3"]
    by_end = {"retained_ms": {"s": 20}, "by_end": {"s": True}}
    assert restored([session, new], [new], **by_end) == [("s", f"missing [{session}], more []")]


def test_topics_of_a_topology_by_hand_are_given_too() -> None:
    cases = {case["name"]: case for case in read(BY_HAND)}
    kept = taken_over(cases["by_hand-read-only-store-alone"], 7)
    assert len(kept["topics"]["c7-all"]) == 4
    assert kept["read"] == ["c7-all"]
    by_all = taken_over(cases["by_hand-global-store"], 7)
    read_anew = {step["topic"] for step in by_all["topology"] if step["op"] == "add_global_store"}
    assert read_anew <= by_all["topics"].keys()
    assert read_anew.isdisjoint(by_all["read"])
    assert by_all["read"]
