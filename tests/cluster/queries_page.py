"""The application of docs/QUERIES.md, which has a store of every kind, on stream loops of this process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.testing.fake_broker import FakeRecord
from tests.cluster.local_application import LocalApplication

PAGE = (Path(__file__).parents[2] / "docs" / "QUERIES.md").read_text()


def application_of_the_page(state_dir: Path) -> LocalApplication:
    """It has processed the page's records."""
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(program, "queries", "exec", dont_inherit=True), names)
    it = LocalApplication(
        state_dir, names["topology"], ("clicks", "prices", "letters"), 1, errors_dead_letter_queue_topic_name="letters"
    )
    it.write("letters", "ada", "a record of another program", 0, 0)
    for topic, key, value, timestamp in names["records"]:
        data = ps.Serdes.long().serialize(value) if isinstance(value, int) else value.encode()
        it.rig.broker.append(topic, FakeRecord(key.encode(), data, timestamp, None))
    it.settle()
    return it
