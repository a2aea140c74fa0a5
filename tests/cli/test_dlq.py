"""``penstock dlq``: the commands, their output and their errors, on the fake broker."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import dlq
from penstock.cli.dlq_show import hex_dump, shown_bytes
from penstock.cli.main import app
from penstock.cluster.dead_letters.replay import Replayer
from penstock.common.dead_letters import Replayed, replayed_header
from penstock.common.errors import ConfigError, MissingTopicError, ProductionError, StreamsError
from penstock.common.topics import NewTopic
from tests.cluster.dead_letters.making import DLQ, Rig, error_headers


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig(orders=4)
    monkeypatch.setattr(dlq, "_clients", lambda *_: made.clients)
    return made


def run(*arguments: str, text: str | None = None) -> str:
    return result(*arguments, text=text).stdout


def result(*arguments: str, text: str | None = None) -> Result:
    made = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["dlq", *arguments], input=text)
    if made.exception is not None and not isinstance(made.exception, SystemExit):
        raise made.exception
    return made


def test_list_counts_letters_most_first(rig: Rig) -> None:
    for number in range(3):
        rig.put(error_headers(message=f"no price in 'order {number}'"), timestamp=1_795_253_400_000 + number)
    rig.put([("a", b"1")], partition=1)
    run("replay", DLQ, "--limit", "1", "--yes")
    shown = run("list", DLQ).splitlines()
    assert shown[0].split() == ["from", "error", "letters", "first", "last", "replayed", "again", "newest"]
    assert shown[1].split("  ")[0] == "orders"
    assert "builtins.ValueError: no price in 'order #'" in shown[1]
    assert shown[1].split()[-6:] == ["3", "2026-11-21T09:30:00.000Z", "2026-11-21T09:30:00.002Z", "1", "0", "0@2"]
    assert "(no dead letter)" in shown[2]
    assert shown[3] == "4 letters of 4"


def test_list_prints_json(rig: Rig) -> None:
    rig.put([replayed_header(Replayed(DLQ, 0, 0, 2)), *error_headers()], timestamp=5)
    [cause] = json.loads(run("list", DLQ, "--json"))["causes"]
    assert cause == {
        "source": "orders", "exception": "builtins.ValueError", "message": "no number: 'x1'", "letters": 1, "first": 5,
        "last": 5, "replayed": 0, "again": 1, "most_replays": 2, "newest": "0@0",
    }  # fmt: skip


def test_list_says_that_a_topic_has_no_letters_or_none_of_those(rig: Rig) -> None:
    assert run("list", DLQ) == f"Topic {DLQ} has no letters\n"
    rig.put()
    assert run("list", DLQ, "--exception", "KeyError") == "0 letters of 1\n"
    assert run("list", DLQ, "--since", "1970-01-01T00:00:01Z", "--until", "1001").endswith("1 letter of 1\n")


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_a_topic_that_does_not_exist_is_named_with_similar_ones(rig: Rig, command: str) -> None:
    with pytest.raises(MissingTopicError, match=r"no topic 'orders-dql' \(similar: orders-dlq"):
        run(command, "orders-dql")


def test_show_prints_all_parts_of_a_letter(rig: Rig) -> None:
    headers = [("source", b"shop"), replayed_header(Replayed(DLQ, 1, 3, 1)), *error_headers("orders", 2, 42)]
    rig.put(headers, key=b"\x00\x01", value=b'{"id":1}', timestamp=1_795_253_400_000)
    run("replay", DLQ, "--yes")
    shown = run("show", DLQ, "0@0").splitlines()
    assert shown[0] == "orders-dlq 0@0"
    assert shown[1].startswith("  time      2026-11-21T09:30:00.000Z")
    assert shown[2] == "  from      orders, partition 2, offset 42"
    assert shown[3] == "  error     builtins.ValueError: no number: 'x1'"
    assert shown[4].startswith("  replayed  to orders at ")
    assert shown[5] == "  again     replayed from orders-dlq 1@3 (replay number 1), and failed again"
    assert shown[6].startswith("  key       0000  00 01   ")
    assert shown[7:10] == ["  value     {", '              "id": 1', "            }"]
    assert shown[10] == "  header    source = shop"
    assert shown[11:] == ["  trace     Traceback …", "              line 1", ""]


def test_show_prints_a_line_of_json_for_each_letter(rig: Rig) -> None:
    rig.put([("raw", b"\xff"), *error_headers("orders", 2, 42)], key=None, value=b"v")
    rig.put([("a", None)], key=b"k", value=None, partition=1)
    first, second = (json.loads(line) for line in run("show", DLQ, "--json", "0@0", "1@0").splitlines())
    assert first == {
        "topic": DLQ, "partition": 0, "offset": 0, "timestamp": 1000,
        "source": {"topic": "orders", "partition": 2, "offset": 42},
        "error": {
            "exception": "builtins.ValueError", "message": "no number: 'x1'", "stacktrace": "Traceback …\n  line 1",
        },
        "key": None, "value": {"base64": base64.b64encode(b"v").decode(), "text": "v"},
        "headers": [["raw", {"base64": "/w=="}]], "replayed": [], "replayed_from": None,
    }  # fmt: skip
    assert (second["source"], second["error"], second["value"], second["headers"]) == (None, None, None, [["a", None]])


def test_show_selects_as_list_does_and_shows_ten_letters_unless_it_is_asked_for_more(rig: Rig) -> None:
    for number in range(12):
        rig.put(value=b"value %d" % number)
    assert len(run("show", DLQ, "--json").splitlines()) == 10
    assert len(run("show", DLQ, "--json", "-n", "11").splitlines()) == 11
    assert len(run("show", DLQ, "--json", "--contains", "value 11").splitlines()) == 1
    assert run("show", DLQ, "--contains", "absent") == f"Topic {DLQ} has no such letters\n"


@pytest.mark.parametrize("command", ["show", "replay"])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("0", "is not PARTITION@OFFSET"),
        ("0@-1", "is not PARTITION@OFFSET"),
        ("5@0", "has the partitions 0 to 1"),
        ("0@9", "no letter at 0@9: partition 0 has the offsets 0 to 0"),
        ("1@0", "no letter at 1@0: partition 1 has the offsets none"),
    ],
)
def test_a_place_without_a_letter_is_an_error(rig: Rig, command: str, place: str, message: str) -> None:
    rig.put()
    with pytest.raises(ConfigError, match=message):
        run(command, DLQ, "0@0", place)


def test_show_decodes_with_the_serdes_of_an_application(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put(error_headers("lines"), key=b"ada", value=b"\xff")
    rig.put(error_headers("lines"), value=b"text", partition=1)
    good, bad = (
        json.loads(line)["decoded"]
        for line in run("show", DLQ, "--json", "--app", "examples.word_count:app", "1@0", "0@0").splitlines()
    )
    assert good["value"] == "text"
    assert "value" not in bad
    assert bad["value_error"].startswith("UnicodeDecodeError")
    assert "  value, decoded\n            text\n" in run("show", DLQ, "--app", "examples.word_count:app", "1@0")
    rig.put(error_headers("unknown"))
    with pytest.raises(ConfigError, match="neither reads nor writes topic 'unknown': its topics are "):
        run("show", DLQ, "--app", "examples.word_count:app", "0@1")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "(null)"),
        (b"null", "null"),
        (b"", ""),
        ("größe".encode(), "größe"),
        (b"{broken", "{broken"),
        (b"[1,2]", "[\n  1,\n  2\n]"),
        (b"a\x00", "0000  61 00" + " " * 44 + "a."),
    ],
)
def test_bytes_are_shown_as_json_as_text_or_as_numbers(data: bytes | None, shown: str) -> None:
    assert shown_bytes(data) == shown


def test_a_long_hex_dump_is_cut() -> None:
    lines = hex_dump(bytes(5000)).splitlines()
    assert len(lines) == 257
    assert lines[-1] == "… 904 more bytes: --json has all"


def test_replay_shows_its_plan_and_asks(rig: Rig) -> None:
    rig.put()
    rig.put(error_headers("gone"))
    plan = "2 letters of 2 selected\n  1 to topic orders\n  1 not replayed: they came from topic 'gone', which does not"
    assert run("replay", DLQ, "--dry-run").startswith(plan)
    assert result("replay", DLQ, text="n\n").exit_code == 1
    assert rig.values("orders") == []
    assert "orders-dlq-replays" not in rig.broker.topics()
    assert run("replay", DLQ, text="y\n").endswith("Write 1 record? [y/N]: y\n1 record written\n")
    assert rig.values("orders") == [b"v"]
    assert "1 not replayed: they were replayed before" in run("replay", DLQ)


def test_a_question_that_nobody_answers_names_the_option_that_skips_it(rig: Rig) -> None:
    rig.put()
    with pytest.raises(ConfigError, match="standard input has no answer: give --yes"):
        run("replay", DLQ, text="")
    assert rig.values("orders") == []


def test_replay_writes_the_letters_at_given_places(rig: Rig) -> None:
    for number in range(4):
        rig.put(error_headers(offset=number), value=b"%d" % number)
    assert run("replay", DLQ, "0@2", "0@0", "--yes").endswith("2 records written\n")
    assert sorted(rig.values("orders"), key=str) == [b"0", b"2"]
    assert "  2 not replayed: they were replayed before" in run("replay", DLQ, "--dry-run")
    with pytest.raises(ConfigError, match="has the partitions 0 to 1"):
        run("replay", DLQ, "7@0")


def test_replay_prints_json(rig: Rig) -> None:
    rig.put()
    body: dict[str, Any] = {"read": 1, "selected": 1, "left": {}, "failed_again": 0, "other_partition": 0}
    assert json.loads(run("replay", DLQ, "--dry-run", "--json")) == {**body, "replayed": {"orders": 1}, "written": 0}
    assert json.loads(run("replay", DLQ, "--yes", "--json")) == {**body, "replayed": {"orders": 1}, "written": 1}


def test_replay_refuses_the_dead_letter_topic_itself_and_an_absent_one(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="is the dead letter topic itself"):
        run("replay", DLQ, "--to", DLQ)
    with pytest.raises(MissingTopicError, match="no topic 'repiar'"):
        run("replay", DLQ, "--to", "repiar")


def test_a_replay_that_fails_says_how_far_it_came(rig: Rig) -> None:
    rig.broker.create_topic(NewTopic("small", 1, config={"max.message.bytes": "10"}))
    rig.put(error_headers("small"), value=b"x" * 20)
    with pytest.raises(StreamsError, match=r"larger than.*; 0 records written before it") as failed:
        run("replay", DLQ, "--yes")
    assert isinstance(failed.value.__cause__, ProductionError)


def test_an_interrupted_replay_says_how_to_continue(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Replayer, "run", interrupted)
    ended = result("replay", DLQ, "--yes")
    assert ended.exit_code == 130
    assert "Interrupted: 0 records written before it, as topic orders-dlq-replays notes" in ended.stderr


@pytest.mark.parametrize("option", [("--since", "yesterday"), ("--until", "soon")])
def test_a_text_that_is_not_a_time_is_an_error(rig: Rig, option: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"{option[0]} '{option[1]}' is neither"):
        run("list", DLQ, *option)
