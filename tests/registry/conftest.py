from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock as ps


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> Iterator[ps.MockSchemaRegistry]:
    """A registry of the test's own."""
    scope = request.node.nodeid
    yield ps.MockSchemaRegistry(scope)
    ps.MockSchemaRegistry.drop(scope)


@pytest.fixture
def config(registry: ps.MockSchemaRegistry) -> dict[str, str]:
    return {"schema.registry.url": f"mock://{registry.scope}"}
