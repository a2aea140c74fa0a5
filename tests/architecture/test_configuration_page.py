"""docs/CONFIGURATION.md names every key of the configuration, with the default it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig

PAGE = (Path(__file__).parents[2] / "docs" / "CONFIGURATION.md").read_text()
DEFAULTS = {
    key: default
    for keys, default in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE)
    for key in re.findall(r"`([a-z.]+)`", keys)
}
KNOWN = {field.alias: field for field in StreamsConfig.model_fields.values() if field.alias}


def test_every_key_is_explained_and_no_other() -> None:
    assert set(DEFAULTS) == set(KNOWN)


@pytest.mark.parametrize("key", sorted(set(KNOWN) - {"application.id", "state.dir", "topology.optimization"}))
def test_the_default_is_the_real_one(key: str) -> None:
    real = KNOWN[key].get_default(call_default_factory=True)
    shown = "–" if real in (None, ()) else f"`{real}`"
    if not isinstance(real, int | str | tuple | None):
        shown = f"`{type(real).__name__}()`"
    assert DEFAULTS[key] == shown
