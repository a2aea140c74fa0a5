"""Random cases of what Kafka Streams lacks, compared with a reference model: played through, and with a restart."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import orjson

from tests.parity.compare import Case, asked, first_difference
from tests.parity.fuzz.model import COMPARED, model
from tests.parity.fuzz.shrink import shrink
from tests.parity.play import play
from tests.parity.restarts import restarted

WAYS = ("whole", "restarted in memory", "restarted in RocksDB")
"""Ways to play a case. A restart throws the task away before a random record; it begins again on an empty disk."""
_SHRINKING_SECONDS = 20
_SHRUNK_AT_MOST = 10


@dataclass
class ModelReport:
    """Counts and differences of one run."""

    cases: int = 0
    plays: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    differences: list[ModelDifference] = field(default_factory=list)


@dataclass(frozen=True)
class ModelDifference:
    """A case whose result differs from the model's, made small."""

    found: str
    way: str
    where: str
    case: Case


def hold_against_model(cases: Iterable[Case], seconds: float, tell: Callable[[str], None], report: ModelReport) -> None:
    """Play ``cases`` for ``seconds`` in all ways; call ``tell`` with each difference once it is reduced."""
    until = time.monotonic() + seconds
    for case in cases:
        report.cases += 1
        report.shapes[case["name"].partition("-")[0]] += 1
        for way in WAYS:
            report.plays += 1
            if differing_from_model(case, way):
                small = len(report.differences) < _SHRUNK_AT_MOST
                difference = _made_small(case, way) if small else ModelDifference(case["name"], way, "", case)
                report.differences.append(difference)
                tell(described(difference) if small else f"{case['name']} differs from the model, {way}")
                break
        if time.monotonic() > until:
            return


def differing_from_model(case: Case, way: str) -> str | None:
    """Returns the first difference from the model, in words; None if there is none."""
    expected, actual = _played(case, way)
    if "error" in actual:
        return f"penstock: {actual['error']}"
    field = next((each for each in COMPARED if expected[each] != actual[each]), None)
    return None if field is None else first_difference(expected, actual, field, "the model")


def _played(case: Case, way: str) -> tuple[Case, Case]:
    """Returns the model's answer and penstock's, as JSON has them."""
    number = None if way == WAYS[0] else Random(f"{case['name']} {way}").randrange(1, max(2, len(case["input"])))
    expected = model(case, number)
    try:
        if number is None:
            actual = play(case)
        else:
            with tempfile.TemporaryDirectory() as folder:
                actual = restarted(case, number, Path(folder) if way == WAYS[2] else None)
    except Exception as error:  # whatever it is, it is the answer
        actual = {"error": f"{type(error).__name__}: {error}"}
    if number is not None and "error" not in actual:
        # A restarted task counts dropped records from 0 again.
        actual = {**actual, "metrics": expected["metrics"]}
    return orjson.loads(orjson.dumps(expected)), orjson.loads(orjson.dumps(actual))


def _made_small(case: Case, way: str) -> ModelDifference:
    began = time.monotonic()
    refused = (differing_from_model(case, way) or "").startswith("penstock: ")

    def shows_it(tried: Case) -> bool:
        if time.monotonic() - began > _SHRINKING_SECONDS:
            return False  # what is small by then is small enough
        try:
            found = differing_from_model(tried, way)
        except (KeyError, ValueError, TypeError):  # the model does not know what is left of the case
            return False
        return found is not None and found.startswith("penstock: ") == refused

    smallest = shrink(asked(case), shows_it)
    where = differing_from_model(smallest, way)
    assert where is not None
    return ModelDifference(case["name"], way, where, smallest)


def described(difference: ModelDifference) -> str:
    """Returns the difference in words, with the case that shows it."""
    lines = [f"{difference.found} differs from the model, {difference.way}", f"  {difference.where}"]
    lines.append(f"  config {orjson.dumps(difference.case['config']).decode()}")
    lines += [f"  {orjson.dumps(step).decode()}" for step in difference.case["topology"]]
    lines += [f"  {orjson.dumps(event).decode()}" for event in difference.case["input"]]
    return "\n".join(lines)
