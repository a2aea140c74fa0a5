"""Applications that tests share: to build one takes 60 ms, as long as to ask it some twenty times."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, cast

from fastapi import FastAPI

from penstock.api.app import create_app
from penstock.api.limits import Rate
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.read_side import ReadSide


class SharedApp:
    """An application that is asked over one read side after the other."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._asked = _ReadSide()
        self.app = create_app(cast(ReadSide, self._asked), settings)

    def over(self, read_side: ReadSide) -> FastAPI:
        """Returns the application, which now asks ``read_side``, as if no client had asked for a range before."""
        if read_side is not self._asked.side:
            self._asked.side = read_side
            state = self.app.state
            state.limits = replace(state.limits, ranges=Rate(self._settings.max_ranges_per_second))
        return self.app


class _ReadSide:
    """The read side of the test that runs."""

    def __init__(self) -> None:
        self.side: ReadSide | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.side, name)


@cache
def _shared(settings: ServerSettings) -> SharedApp:
    return SharedApp(settings)


def app_of(read_side: ReadSide, settings: ServerSettings | None = None) -> FastAPI:
    """Returns the application with these settings, which asks ``read_side`` until the next call."""
    return _shared(settings or ServerSettings()).over(read_side)
