"""Errors of Spark's workers, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from penstock.common.errors import StreamsError

# The last line of a Python traceback.
_CAUSE = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w*Error: .+)$", re.MULTILINE)


@contextmanager
def causes_named(what: str) -> Iterator[None]:
    """Turn Spark's report of an exception in a worker into one sentence that names what was raised there."""
    try:
        yield
    except PySparkException as error:
        found = _CAUSE.findall(str(error))
        cause = found[-1] if found else str(error).partition("\n")[0]
        raise StreamsError(f"{what}: {cause}") from error
