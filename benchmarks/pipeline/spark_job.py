"""The job as ``penstock backfill`` loads it: its names come from the environment."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.pipeline.history import APPLICATION, SERVERS, STATE_DIR, application

app = application(os.environ[APPLICATION], os.environ[SERVERS], Path(os.environ[STATE_DIR]))
