"""Measurements of the stores of one task: taken on request, but at most every 5 s."""

from __future__ import annotations

from penstock.common.measures import Window
from penstock.common.metric_names import STATE, Measured
from penstock.tasks.state_manager import StateManager

_ASK_EVERY_S = 5.0
_SAMPLED = ("suppression-buffer-count", "suppression-buffer-size")
"""Figures with an average and a maximum in Kafka Streams: here over the moments of the requests."""


class StateMeters:
    """Keeps the recent values of figures that have only a current value."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, str], Window] = {}
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}
        self._asked_s = -_ASK_EVERY_S
        self._measured: Measured = {}

    def measured(self, stores: StateManager, now_s: float) -> Measured:
        """Returns all measurements, at most 5 s old."""
        if now_s - self._asked_s >= _ASK_EVERY_S:
            self._asked_s, self._measured = now_s, self._ask(stores, now_s)
        return self._measured

    def _ask(self, stores: StateManager, now_s: float) -> Measured:
        measured: Measured = {}
        for name in stores.store_names:
            for figure, value in stores.store(name).figures().items():
                if figure in _SAMPLED:
                    measured |= self._sampled(figure, name, value, now_s)
                else:
                    measured[STATE, figure, name] = value
        return measured

    def _sampled(self, figure: str, store: str, value: float, now_s: float) -> Measured:
        times, total = self._seen.get((figure, store), (0, 0.0))
        self._seen[figure, store] = times, total = times + 1, total + value
        seen = self._windows.setdefault((figure, store), Window()).look(now_s, times, total, value)
        return {(STATE, f"{figure}-avg", store): seen.average, (STATE, f"{figure}-max", store): seen.highest}
