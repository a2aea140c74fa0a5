"""``KStream.print``: a line per record, in the form of Kafka Streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.tasks.bench import STRINGS, Bench

ANYTHING: Any = str.upper
SEVEN: Any = 7


def bench_of(printed: ps.Printed[Any, Any]) -> Bench:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).filter(lambda key, value: value != "no", named="some").print(printed)
    return Bench(builder)


def test_the_label_is_the_name_of_the_node_above_and_null_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    bench_of(ps.Printed.to_sys_out()).feed("in", ("k", "v", 1), ("k", "no", 1), (None, None, 2))
    assert capsys.readouterr().out == "[some]: k, v\n[some]: null, null\n"


def test_a_label_and_a_mapper(capsys: pytest.CaptureFixture[str]) -> None:
    how = ps.Printed.to_sys_out().with_label("seen").with_key_value_mapper(lambda key, value: f"{value} of {key}")
    bench_of(how).feed("in", ("k", "v", 1))
    assert capsys.readouterr().out == "[seen]: v of k\n"


def test_a_windowed_key_is_shown_with_its_window(capsys: pytest.CaptureFixture[str]) -> None:
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_with_no_grace(10)
    counts = builder.stream("in", STRINGS).group_by_key().windowed_by(windows).count().to_stream()
    counts.print(ps.Printed.to_sys_out().with_label("w"))
    bench = Bench(builder)
    bench.feed("in", ("k", "v", 13))
    bench.flush()
    assert capsys.readouterr().out == "[w]: [k@10/20], 1\n"


def test_a_file_is_emptied_when_the_program_names_it_and_then_added_to(tmp_path: Path) -> None:
    file = tmp_path / "seen.txt"
    file.write_text("of yesterday\n")
    how = ps.Printed.to_file(file).with_label("in")
    assert file.read_text() == ""
    first, second = bench_of(how), bench_of(how)
    first.feed("in", ("k", "ö", 1))
    second.feed("in", ("k", "two", 1))
    first.feed("in", ("k", "three", 1))
    assert file.read_text(encoding="utf-8") == "[in]: k, ö\n[in]: k, two\n[in]: k, three\n"
    first.task.close()
    second.task.close()


def test_the_node_has_its_name_and_the_file_is_kept_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    how = ps.Printed.to_file("seen.txt").with_name("printer")
    assert how.path == str(tmp_path / "seen.txt")
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).print(how)
    assert "Processor: printer (stores: [])\n      --> none" in builder.build().describe()


def test_a_mapper_that_raises_is_an_error_of_its_record() -> None:
    how: ps.Printed[Any, Any] = ps.Printed.to_sys_out().with_key_value_mapper(lambda key, value: str(1 // 0))
    with pytest.raises(ps.ProcessingError, match="KSTREAM-PRINTER"):
        bench_of(how).feed("in", ("k", "v", 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stream: ps.Printed.to_file(" "), "the path may not be empty"),
        (lambda stream: ps.Printed.to_file("/no/such/folder/file"), "/no/such/folder/file cannot be written: No such"),
        (lambda stream: ps.Printed.to_sys_out().with_label(SEVEN), "label must be a string, not 7"),
        (lambda stream: ps.Printed.to_sys_out().with_key_value_mapper(ANYTHING), "yours takes 1 argument"),
        (lambda stream: ps.Printed.to_sys_out().with_name("a b"), "illegal name 'a b'"),
        (lambda stream: stream.print("x"), r"print needs a Printed, such as Printed.to_sys_out\(\), not 'x'"),
    ],
)
def test_wrong_arguments_are_reported_at_the_call(call: Any, message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        call(ps.StreamsBuilder().stream("in"))
