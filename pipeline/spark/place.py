"""The place at which Spark runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SparkPlace:
    """Spark's master URL, and settings of Spark. Without a master it is that of ``spark-submit``, else that of
    ``spark-defaults.conf``, else all cores of this machine."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
