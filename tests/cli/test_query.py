"""The output of ``penstock query``, over a read side in memory."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import query as command
from penstock.cli.main import app
from penstock.common.errors import ApplicationStateError, ConfigError, SerializationError
from penstock.common.serdes import Serde
from tests.api.fake import FakeReadSide, FakeStore


@pytest.fixture
def side() -> FakeReadSide:
    read_side = FakeReadSide()
    for word, count in (("a", 1), ("b", 2), ("c", 3)):
        read_side.fakes["counts"].put(word, count)
    return read_side


def query(
    side: FakeReadSide, store: str, key: str | None = None, first: str | None = None, last: str | None = None
) -> bool:
    return asyncio.run(command.answer(side, store, command.Asked(key, first, last)))


def test_a_key_is_read_by_the_serde_and_its_value_printed(
    side: FakeReadSide, capsys: pytest.CaptureFixture[str]
) -> None:
    side.fakes["by-number"].put(7, "seven")
    assert query(side, "counts", "b")
    assert query(side, "by-number", "7")
    assert capsys.readouterr().out == "2\nseven\n"


def test_json_gives_each_row_a_line_with_its_time(side: FakeReadSide, capsys: pytest.CaptureFixture[str]) -> None:
    side.fakes["counts"].put("c", 3, timestamp=1000)
    assert asyncio.run(command.answer(side, "counts", command.Asked("c"), as_json=True))
    assert asyncio.run(command.answer(side, "counts", command.Asked(from_key="b"), as_json=True))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"key": "c", "value": 3, "timestamp": 1000},
        {"key": "b", "value": 2, "timestamp": None},
        {"key": "c", "value": 3, "timestamp": 1000},
    ]


def test_an_absent_key_prints_nothing(side: FakeReadSide, capsys: pytest.CaptureFixture[str]) -> None:
    assert not query(side, "counts", "z")
    assert capsys.readouterr().out == ""


def test_a_range_is_printed_whole_over_all_pages(
    side: FakeReadSide, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_PAGE", 2)
    assert query(side, "counts")
    assert query(side, "counts", first="b", last="b")
    assert capsys.readouterr().out == "a\t1\nb\t2\nc\t3\nb\t2\n"


def test_values_are_printed_as_the_http_api_shows_them(side: FakeReadSide, capsys: pytest.CaptureFixture[str]) -> None:
    side.fakes["counts"].put("bytes", b"\x00\xff")
    side.fakes["counts"].put("mapping", {1: [True, None]})
    assert query(side, "counts", "bytes")
    assert query(side, "counts", "mapping")
    assert capsys.readouterr().out == '"AP8="\n{"1":[true,null]}\n'


@pytest.mark.parametrize(("first", "last"), [("-2", "2"), ("3", "2")])
def test_an_inverted_range_is_refused_with_two_ranges_to_ask_for(
    side: FakeReadSide, first: str, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(-3, 4):
        side.fakes["by-number"].put(number, str(number))
    with pytest.raises(ConfigError, match=rf"--from {first} comes after --to {last}: .*negative.* ask for two ranges"):
        query(side, "by-number", first=first, last=last)
    assert capsys.readouterr().out == ""
    assert query(side, "by-number", last="2")
    assert query(side, "by-number", first="-2")
    assert capsys.readouterr().out == "0\t0\n1\t1\n2\t2\n-2\t-2\n-1\t-1\n", "the two ranges that the error names"


def test_negative_numbers_are_spoken_of_only_where_keys_are_numbers(side: FakeReadSide) -> None:
    with pytest.raises(ConfigError, match="--from z comes after --to a") as refused:
        query(side, "counts", first="z", last="a")
    assert "negative" not in str(refused.value)


@pytest.mark.parametrize(("limit", "shown"), [(1, "a"), (2, "ab"), (3, "abc"), (4, "abc")])
def test_a_limit_is_kept_within_a_page_and_over_pages(
    limit: int, shown: str, side: FakeReadSide, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in (1, 2, 1000):
        monkeypatch.setattr(command, "_PAGE", page)
        asyncio.run(command.answer(side, "counts", command.Asked(), limit=limit))
        assert [line[0] for line in capsys.readouterr().out.splitlines()] == list(shown)


def test_an_end_of_a_range_that_the_serde_refuses_is_named(side: FakeReadSide) -> None:
    with pytest.raises(SerializationError, match="99999999999"):
        query(side, "by-number", first="1", last="99999999999")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_row_that_json_cannot_show_hides_no_other(
    side: FakeReadSide, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    side.fakes["counts"].put("aa", {(1, 2): 2**64})
    assert asyncio.run(command.answer(side, "counts", command.Asked(to_key="b"), as_json))
    lines = capsys.readouterr().out.splitlines()
    if as_json:
        odd = json.loads(lines.pop(1))
        assert (odd["key"], odd["value"]) == ("'aa'", "{(1, 2): 18446744073709551616}")
        assert "has no JSON form" in odd["problem"]
        assert [json.loads(line)["key"] for line in lines] == ["a", "b"]
    else:
        assert lines == ["a\t1", "aa\t{(1, 2): 18446744073709551616}", "b\t2"]


def test_the_users_modules_are_found_in_this_folder_and_shadow_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_to(_: str) -> None:
        raise ApplicationStateError("no cluster")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("penstock.cluster.ray_cluster.connections.connect_to", connect_to)
    assert isinstance(CliRunner().invoke(app, ["query", "app", "store"]).exception, ApplicationStateError)
    assert sys.path[-1] == str(tmp_path)


def test_a_key_that_cannot_be_read_names_the_serde(side: FakeReadSide) -> None:
    with pytest.raises(ConfigError, match="integer cannot read 'seven'"):
        query(side, "by-number", "seven")
    side.fakes["pairs"] = FakeStore(Serde("pair", lambda pair: bytes(pair), tuple))
    with pytest.raises(ConfigError, match="pair has no from_text"):
        query(side, "pairs", "(1, 2)")
