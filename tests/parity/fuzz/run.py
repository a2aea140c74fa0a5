"""Play random cases on both sides, and make small what differs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random

import orjson

from tests.parity.compare import Case, asked, differing, first_difference, signature
from tests.parity.fuzz.generate import generate
from tests.parity.fuzz.known import kafka_streams_own
from tests.parity.fuzz.shrink import shrink
from tests.parity.oracle import KafkaStreams
from tests.parity.play import answer
from tests.parity.restarts import KEPT, forgets, restarted

_AT_ONCE = 100
_SHRUNK_AT_MOST = 10
_SHRINKING_SECONDS = 60
_RESTARTED_OF = 4


@dataclass
class Report:
    """Counts and differences of one run."""

    cases: int = 0
    refused: int = 0
    """Number of cases that both sides refused."""
    restarted: int = 0
    """Number of cases that were also played with a restart in between."""
    message: Counter[str] = field(default_factory=Counter)
    """Number of cases that made something, for each kind of thing that can differ."""
    too_large: int = 0
    """Cases that grow, step by step, beyond the memory of the JVM: penstock is not asked to play them."""
    known: Counter[str] = field(default_factory=Counter)
    """Number of cases that Kafka Streams cannot play because of an error of its own, by that error."""
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Difference:
    """A case whose answers differ, made small, with the answer of Kafka Streams."""

    found: str
    fields: list[str]
    where: str
    case: Case
    """The small case, in the form in which it can be kept."""
    attempts: int
    """Number of smaller cases that were tried; 0 if there were too many differences to make all small."""
    seconds: float


def on_penstock(case: Case) -> Case:
    """Returns the player's answer, as it is read from its standard output."""
    played: Case = orjson.loads(answer(orjson.dumps(case)))
    return played


def on_restarted(case: Case) -> Case:
    """Returns the player's answer if the task is thrown away before some record and restored from its changelogs."""
    whole = on_penstock(case)
    if "error" in whole:
        return whole
    number = Random(case["name"]).randrange(1, max(2, len(case["input"])))
    try:
        again: Case = orjson.loads(orjson.dumps(restarted(case, number, None)))
    except Exception as error:  # whatever it is, it is the answer
        return {"name": case["name"], "error": f"restarted before record {number}: {type(error).__name__}: {error}"}
    return {**whole, **{field: again[field] for field in KEPT}}


def _may_restart(case: Case) -> bool:
    return not forgets(case) and all(step.get("logging", True) for step in case["topology"])


def fuzz(oracle: KafkaStreams, cases: Iterator[Case], seconds: float, tell: Callable[[str], None]) -> Report:
    """Play ``cases`` for ``seconds`` on both sides; call ``tell`` with each difference once it is reduced."""
    report = Report()
    until = time.monotonic() + seconds
    while time.monotonic() < until and (batch := list(islice(cases, _AT_ONCE))):
        # The JVM plays the case after this one while penstock plays this one.
        played = [
            (case, expected, expected if _too_large(expected) else on_penstock(case))
            for case, expected in zip(batch, oracle.play(batch), strict=True)
        ]
        for case, expected, actual in played:
            if _too_large(expected):
                report.too_large += 1
                continue
            report.cases += 1
            report.refused += "error" in expected and "error" in actual
            report.message.update(_says(expected))
            if own := kafka_streams_own(case, expected, actual):
                report.known[own] += 1
                continue
            player = on_penstock
            if not differing(expected, actual) and report.cases % _RESTARTED_OF == 0 and _may_restart(case):
                player, report.restarted = on_restarted, report.restarted + 1
                actual = player(case)
            if differing(expected, actual):
                small = len(report.differences) < _SHRUNK_AT_MOST
                difference = _made_small(oracle, case, expected, actual, small, player)
                report.differences.append(difference)
                tell(describe(difference) if small else f"{case['name']} differs in {', '.join(difference.fields)}")
    return report


def _too_large(expected: Case) -> bool:
    return str(expected.get("error", "")).startswith("OutOfMemoryError")


def numbered(seed: int) -> Iterator[Case]:
    """All cases of a seed, without end."""
    return (generate(seed, number) for number in count())


def _says(expected: Case) -> Iterator[str]:
    """Yields the kinds of things that an answer has and in which it could have differed from another one."""
    if "error" in expected:
        return
    if any(expected["output"].values()):
        yield "output"
    if any(expected["internal"].values()):
        yield "internal records"
    if any(expected["stores"].values()):
        yield "entries in named stores"
    if expected["metrics"]["dropped-records-total"]:
        yield "dropped records"
    if "Sub-topology: 1" in expected["description"]:
        yield "several sub-topologies"


def _made_small(
    oracle: KafkaStreams, case: Case, expected: Case, actual: Case, small: bool, player: Callable[[Case], Case]
) -> Difference:
    known_by = signature(expected, actual)
    attempts = 0

    def both(tried: Case) -> tuple[Case, Case]:
        (expected,) = oracle.play([tried])
        return expected, player(tried)

    def shows_it(tried: Case) -> bool:
        nonlocal attempts
        attempts += 1
        if time.monotonic() - began > _SHRINKING_SECONDS:
            return False  # what is small by then is small enough
        return bool(known_by & signature(*both(tried)))

    began = time.monotonic()
    smallest = asked(case)
    if small:
        smallest = shrink(smallest, shows_it)
        expected, actual = both(smallest)
    still = differing(expected, actual)
    where = first_difference(expected, actual, still[0])
    return Difference(case["name"], still, where, {**smallest, **expected}, attempts, time.monotonic() - began)


def describe(difference: Difference) -> str:
    """Returns the difference in words, with the case that shows it."""
    lines = [
        f"{difference.found} differs in {', '.join(difference.fields)}",
        f"  made small in {difference.attempts} attempts, {difference.seconds:.1f} s",
        f"  {difference.where}",
        f"  config {orjson.dumps(difference.case['config']).decode()}",
    ]
    lines += [f"  {orjson.dumps(step).decode()}" for step in difference.case["topology"]]
    lines += [f"  {orjson.dumps(event).decode()}" for event in difference.case["input"]]
    return "\n".join(lines)
