"""No process is ended by its number alone: it may have been given to another process meanwhile."""

from __future__ import annotations

import re

from tests.architecture.sources import OUTSIDE, PACKAGES, ROOT, python_files

SIGNALS = re.compile(r"\bos\.kill(?:pg)?\(")
KNOWN = {
    "actors/process/process_watch.py": "looks at its title and at when it was created, on its own node",
    "benchmarks/java_deployment.py": "a process that it has started, and whose report has just come",
    "benchmarks/measure.py": "the group of a child: the system keeps its number while it has members",
    "benchmarks/penstock_deployment.py": "an actor whose report has just come",
    "tests/cluster/test_command_line.py": "a child that was not waited for yet",
    "tests/cluster/test_ray_job.py": "a child that was not waited for yet",
    "tests/pipeline/audit/test_killed_audit.py": "a child that was not waited for yet",
    "tests/pipeline/ingest/test_kills.py": "the group of a child: a Java that lives on notices the child's end later",
    "tests/pipeline/killed_driver.py": "its own group",
    "tests/pipeline/test_interrupted.py": "a child that was not waited for yet",
    "tests/pipeline/test_resumed.py": "a child that was not waited for yet",
    "tests/state/test_bulk_load.py": "a child that was not waited for yet",
}
"""Every file that signals by a number, and why that number is the right process. ``psutil.Process`` checks it, and
``tests/processes.py`` for those of Ray."""


def test_only_known_files_signal_a_process_by_its_number() -> None:
    files = python_files(*PACKAGES, *OUTSIDE)
    found = {str(file) for file in files if SIGNALS.search((ROOT / file).read_text())}
    assert found - {"tests/architecture/test_signals.py"} == set(KNOWN)
