"""``Calls``: the options of the operators that call out, and ``Retry``, ``Breaker`` and ``Cache``, which they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.topology.arity import checked_function


class CallOrder(StrEnum):
    """The order in which calls begin, and in which their results are forwarded."""

    KEY = "key"
    """Calls for records of one key are made one after the other. Records of other keys, and without a key, may
    overtake."""
    PARTITION = "partition"
    """Calls are made at the same time. Their results are forwarded in the order of the records."""
    NONE = "none"
    """Each result is forwarded when its call ends."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Further tries of a call that has failed. Times are in ms.

    A call is tried ``tries`` times in all. The pause after the first failure is ``backoff_ms``; each later one is
    ``factor`` times as long, ``max_backoff_ms`` at most, and up to a fifth shorter, so that calls that failed together
    are not repeated together. If the error has a ``Retry-After`` (an attribute ``retry_after`` in seconds, or the
    header of an HTTP response), the pause is at least that long. ``retryable(error)``: False for an error that another
    try would not remedy; None means that the call is tried again after every error.
    """

    tries: int = 3
    backoff_ms: int = 100
    factor: float = 2.0
    max_backoff_ms: int = 10_000
    retryable: Callable[[Exception], bool] | None = None

    def __post_init__(self) -> None:
        check_number("Retry: tries", self.tries, 1)
        check_number("Retry: backoff_ms", self.backoff_ms, 0)
        check_number("Retry: max_backoff_ms", self.max_backoff_ms, 0)
        _check_rate("Retry: factor", self.factor, 1.0)
        if self.retryable is not None:
            given: object = self.retryable
            if isinstance(given, type | tuple):  # an exception made of the error would always be true
                classes = given if isinstance(given, tuple) else (given,)
                names = ", ".join(getattr(each, "__name__", repr(each)) for each in classes)
                raise TopologyError(
                    "Retry: retryable must be a function of the error, not a class: write "
                    f"retryable=lambda error: isinstance(error, ({names}))"
                )
            checked_function(self.retryable, "Retry: retryable", "error")

    def applies(self, error: Exception) -> bool:
        """Returns True if a call that failed with ``error`` may be tried again."""
        return self.retryable is None or bool(self.retryable(error))


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """A circuit breaker: after ``failures`` failed tries in a row no call begins for ``open_ms``, and records wait.
    Then one call is tried. If it succeeds, all calls continue; otherwise records wait again.

    A time-out is a failure. An error that is not ``retryable`` (:class:`Retry`) is an answer, not a failure.
    """

    failures: int = 10
    open_ms: int = 5_000

    def __post_init__(self) -> None:
        check_number("Breaker: failures", self.failures, 1)
        check_number("Breaker: open_ms", self.open_ms, 1)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Keeps results for ``ttl_ms``, for later calls with the same value. There is one cache for each task, of at most
    ``max_entries`` results; those that were used longest ago are dropped first. It is in memory, and empty when a task
    begins. Failures are not kept."""

    ttl_ms: int = 60_000
    max_entries: int = 10_000

    def __post_init__(self) -> None:
        check_number("Cache: ttl_ms", self.ttl_ms, 1)
        check_number("Cache: max_entries", self.max_entries, 1)


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Options of the operators that call out. All limits apply to one task; times are in ms.

    ``max_in_flight``: number of calls at the same time. A task takes records until twice as many of them wait, run, or
    have a result that is not forwarded yet, or until these have about ``max_bytes``. ``timeout_ms``: the longest time
    from the first try for a record to its result, including all tries and pauses. ``order``: see :class:`CallOrder`. If
    an operator downstream depends on the order of the input, results keep this order in any case (docs/CALLS.md).
    ``max_rate``: calls per second. ``collapse``: True if a call with the same value as one that runs shares its result.
    ``cache``: keeps results for later calls with the same value.

    >>> import penstock as ps
    >>> ps.Calls(max_in_flight=200, timeout_ms=500, retry=ps.Retry(tries=3)).order
    <CallOrder.KEY: 'key'>
    """

    max_in_flight: int = 100
    max_bytes: int = 64 << 20
    timeout_ms: int = 5_000
    retry: Retry | None = None
    order: CallOrder | str = CallOrder.KEY
    max_rate: float | None = None
    breaker: Breaker | None = None
    collapse: bool = False
    cache: Cache | None = None

    def __post_init__(self) -> None:
        check_number("Calls: max_in_flight", self.max_in_flight, 1)
        check_number("Calls: max_bytes", self.max_bytes, 1)
        check_number("Calls: timeout_ms", self.timeout_ms, 1)
        if self.max_rate is not None:
            _check_rate("Calls: max_rate", self.max_rate, 0.001)
        for what, given, kind in (
            ("retry", self.retry, Retry),
            ("breaker", self.breaker, Breaker),
            ("cache", self.cache, Cache),
        ):
            if given is not None and not isinstance(given, kind):
                raise TopologyError(f"Calls: {what} must be a {kind.__name__}, not {shown_with_type(given)}")
        try:
            object.__setattr__(self, "order", CallOrder(self.order))
        except ValueError:
            known = ", ".join(repr(each.value) for each in CallOrder)
            raise TopologyError(f"Calls: order must be one of {known}, not {self.order!r}") from None

    @property
    def shares(self) -> bool:
        """True if equal calls share a result."""
        return self.collapse or self.cache is not None


def check_number(what: str, given: Any, least: int) -> None:
    """Raise TopologyError unless an option is a whole number, and large enough."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        unit = " of ms" if what.endswith("_ms") else ""
        raise TopologyError(f"{what} must be a whole number{unit} from {least} on, not {given!r}")


def _check_rate(what: str, given: Any, least: float) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given < float("inf"):
        raise TopologyError(f"{what} must be a number from {least:g} on, not {given!r}")
