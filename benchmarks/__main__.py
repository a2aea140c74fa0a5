"""``python -m benchmarks``: see ``run.py``."""

from __future__ import annotations

import typer

from benchmarks.run import main

typer.run(main)
