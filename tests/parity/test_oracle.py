"""The outcome of a Java program that refuses, cannot work, or ends; without a JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parity.fuzz.generate import generate
from tests.parity.fuzz.run import fuzz, numbered
from tests.parity.oracle import KafkaStreams, OracleError

CASES = [generate(1, number) for number in range(3)]
NO_FILES = "ProcessorStateException: Error opening store s: Too many open files"
REFUSES = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"name": json.loads(line)["name"], "error": "TopologyException: no"}), flush=True)
"""
ENDS_AFTER_ONE = """
import json, sys
print(json.dumps({"name": json.loads(sys.stdin.readline())["name"], "error": "TopologyException: no"}), flush=True)
sys.exit(3)
"""
CANNOT_WORK = f"""
import json, sys
for number, line in enumerate(sys.stdin):
    kind, why = ("error", "TopologyException: no") if number == 0 else ("broken", {NO_FILES!r})
    print(json.dumps({{"name": json.loads(line)["name"], kind: why}}), flush=True)
"""


class Scripted(KafkaStreams):
    """A Python program in place of the JVM."""

    def __init__(self, program: str, work: Path) -> None:
        self._work = work / "oracle"
        self._work.mkdir()
        self._jvm = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    with Scripted(REFUSES, tmp_path) as oracle:
        answers = list(oracle.play(CASES))
    assert answers == [{"name": case["name"], "error": "TopologyException: no"} for case in CASES]


def test_an_oracle_that_cannot_work_is_an_error_which_names_the_case_and_the_cause(tmp_path: Path) -> None:
    with Scripted(CANNOT_WORK, tmp_path) as oracle:
        answers = oracle.play(CASES)
        assert "error" in next(answers)
        with pytest.raises(OracleError) as raised:
            next(answers)
    assert str(raised.value) == f"Kafka Streams could not work when it played {CASES[1]['name']}: {NO_FILES}"


@pytest.mark.parametrize(
    ("program", "message"), [(CANNOT_WORK, "could not work"), (ENDS_AFTER_ONE, r"JVM ended \(exit 3\) instead")]
)
def test_a_run_of_random_cases_stops_there(program: str, message: str, tmp_path: Path) -> None:
    with Scripted(program, tmp_path) as oracle, pytest.raises(OracleError, match=message):
        fuzz(oracle, numbered(1), 600, lambda line: None)
