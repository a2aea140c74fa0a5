"""The mock registry accepts and refuses the next version of a schema as a real one does."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.registry.contracts import SchemaRefusedError
from tests.registry.evolutions import EVOLUTIONS, Evolution


@pytest.mark.parametrize("evolution", EVOLUTIONS, ids=[each.name for each in EVOLUTIONS])
def test_an_evolution_is_accepted_or_refused(evolution: Evolution, registry: ps.MockSchemaRegistry) -> None:
    *earlier, last = evolution.versions
    registry.set_compatibility("NONE", "s")
    for each in earlier:
        registry.register("s", each, False)
    registry.set_compatibility(evolution.level, "s")
    found = registry.conflicts("s", last)
    assert (not found) == evolution.accepted, found
    if evolution.accepted:
        assert registry.register("s", last, False) == len(earlier) + 1
    else:
        with pytest.raises(SchemaRefusedError, match=rf"not compatible \({evolution.level}\): "):
            registry.register("s", last, False)


def test_the_table_has_forty_evolutions_at_least_each_once() -> None:
    assert len(EVOLUTIONS) >= 40
    assert len({each.name for each in EVOLUTIONS}) == len(EVOLUTIONS)
