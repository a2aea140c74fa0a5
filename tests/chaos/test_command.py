"""The errors of ``python -m penstock.testing.chaos`` about arguments, and the command that plays the same again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer

import penstock as ps
from penstock.common.errors import ConfigError
from penstock.testing.chaos import AtRest, Guarantee, Program, Report, Written
from penstock.testing.chaos import __main__ as command
from penstock.testing.chaos.__main__ import NAMES, chosen_kinds, load, once_more
from penstock.testing.chaos.numbered import Numbered
from penstock.testing.chaos.run import run
from penstock.testing.chaos.schedule import Kind, possible

ON_ONE_NODE = possible(1, Guarantee.AT_LEAST, poison=False)


class Bare(Program):
    """A program that declares neither topics nor rounds."""

    def topology(self) -> ps.Topology:
        return ps.StreamsBuilder().build()

    def round(self, number: int) -> Iterator[Written]:
        return iter(())

    def check(self, at_rest: AtRest) -> Iterator[str]:
        return iter(())


bare = Bare()
HERE = f"{__name__}:bare"


def test_a_program_is_found_by_its_module_and_name() -> None:
    assert load(HERE) is bare


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("shop", "'shop' is not MODULE:PROGRAM, such as shop.chaos:orders"),
        (":orders", "':orders' is not MODULE:PROGRAM, such as shop.chaos:orders"),
        ("shp:orders", f"there is no module 'shp' in {Path.cwd()} or on Python's path"),
        (f"{__name__}:bear", f"module {__name__!r} has no 'bear': it takes a penstock.testing.chaos.Program; there"),
        (f"{__name__}:Bare", f"{__name__}:Bare is a class, not one of its objects: "),
        (f"{__name__}:HERE", f"{__name__}:HERE is a str: it takes a penstock.testing.chaos.Program; there is {HERE}"),
    ],
)  # fmt: skip
def test_a_target_that_is_no_program_is_reported_in_one_sentence(target: str, message: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        load(target)
    assert refused.value.message.startswith(message)


def test_a_module_that_the_program_itself_lacks_is_not_taken_for_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_that_lacks.py").write_text("import what_it_lacks")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_it_lacks"):
        load("shop_that_lacks:orders")


def test_all_that_is_possible_is_played_unless_only_some_are_asked_for() -> None:
    assert chosen_kinds(None, ON_ONE_NODE) == ON_ONE_NODE
    asked = chosen_kinds(["rebalance,kill-broker", "kill-broker"], ON_ONE_NODE)
    assert set(asked) == {Kind.REBALANCE, Kind.KILL_BROKER}


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("poison", "a program with poison()"),
        ("zombie", "--nodes 2 or more"),
        ("elect-leaders", "--guarantee exactly_once_v2"),
    ],
)
def test_a_fault_that_is_not_possible_is_refused_and_not_left_out_without_a_word(name: str, needs: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        chosen_kinds([f"kill-broker,{name}"], ON_ONE_NODE)
    assert refused.value.message == f"{name} needs {needs}"


@pytest.mark.parametrize("kind", Kind)
def test_each_missing_argument_is_reported(kind: Kind) -> None:
    assert kind in possible(1, Guarantee.AT_LEAST, poison=False) or kind in command._NEEDS


@pytest.mark.parametrize("only", ["kil-broker", ""])
def test_an_unknown_fault_is_named_with_all_that_there_are(only: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        chosen_kinds([only], ON_ONE_NODE)
    assert f"there is no fault {only!r}; " in refused.value.message
    assert all(name in refused.value.message for name in NAMES)


def report(program: Program, guarantee: Guarantee, kinds: tuple[Kind, ...]) -> Report:
    return Report(7, 2.5, kinds, guarantee, 1, Path("/tmp"))


def test_the_same_again_is_the_same_program_with_the_same_faults() -> None:
    some = report(bare, Guarantee.AT_LEAST, (Kind.KILL_BROKER, Kind.REBALANCE))
    assert once_more(some, bare, [HERE]) == (
        f"python -m penstock.testing.chaos {HERE} --seconds 2.5 --seed 7 --guarantee at_least_once --nodes 1 "
        "--only kill-broker,rebalance"
    )
    numbered = Numbered(1000)
    everything = report(numbered, Guarantee.EXACTLY, possible(1, Guarantee.EXACTLY, poison=True))
    assert "--only" not in shlex.split(once_more(everything, numbered, ["--records", "1000"]))


def test_a_check_that_finds_very_much_fills_a_file_and_not_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    much = replace(report(bare, Guarantee.AT_LEAST, (Kind.KILL_BROKER,)), folder=tmp_path)
    much.violations = [f"customer-{number} owes {'9' * 10_000}" for number in range(5000)]
    command._print_report(much, bare, [HERE])
    shown = capsys.readouterr().out
    assert len(shown) < 30_000
    assert "VIOLATED: customer-0 owes 999" in shown
    assert "VIOLATED: 4,980 more" in shown
    assert (tmp_path / "violations.txt").read_text().splitlines() == much.violations
    assert f"all that is violated: {tmp_path / 'violations.txt'}" in shown


def test_missing_parts_of_a_program_are_named_before_anything_is_started() -> None:
    with pytest.raises(ConfigError, match=r"^Bare has no topics and no rounds: "):
        run(bare, 7)
