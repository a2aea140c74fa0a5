"""The proof of the data pipeline, in small: live, by Spark, audited, and with rows that are changed on purpose."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.long
def test_live_and_spark_compute_the_same_stores_and_the_audit_finds_what_is_planted() -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline.proof", "--records", "100000", "--users", "3000"]
    proof = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert proof.returncode == 0, proof.stdout
    assert "| window | views-per-region |" in proof.stdout
