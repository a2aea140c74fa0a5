"""The names that a program may use, each with the attributes that penstock gives it.

``python -m tests.architecture.public_surface`` writes the list again. It is kept in a file so that each change of it
is one that somebody made and another person read.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps

LISTED = Path(__file__).with_name("public_surface.txt")


def surface() -> str:
    """Returns one line for each name: ``TaskId: partition subtopology …``."""
    return "".join(f"{' '.join([f'{name}:', *attributes(getattr(ps, name))])}\n" for name in sorted(ps.__all__))


def attributes(found: object) -> list[str]:
    """Returns methods, properties, fields and constants, inherited ones too, without those of Python itself."""
    if not isinstance(found, type):
        return []
    ours = [base for base in found.__mro__ if base.__module__.startswith("penstock.")]
    names = {name for base in ours for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return sorted(name for name in names if not name.startswith("_"))


if __name__ == "__main__":
    LISTED.write_text(surface())
