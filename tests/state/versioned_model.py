"""The content of a versioned store, modelled without segments: for each key, its versions one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

NOT_PUT = -(2**63)


@dataclass
class Span:
    """A value, or None for none, from ``start`` until ``end``."""

    start: int
    end: int
    value: str | None


@dataclass
class Versions:
    """The versions of one key. ``ended`` are those that something later has ended, in order."""

    latest: tuple[str, int] | None = None
    ended: list[Span] = field(default_factory=list)

    def put(self, value: str | None, timestamp: int) -> int:
        """Puts a version that is not too late, as the store does. Returns the time at which it ends, or -1."""
        if self.latest is not None and timestamp >= self.latest[1]:
            before, since = self.latest
            if timestamp > since:
                self.ended.append(Span(since, timestamp, before))
            # A version that is deleted at the time at which it began leaves no trace, and neither does the deletion.
            self.latest = None if value is None else (value, timestamp)
            return -1
        for index, span in enumerate(self.ended):
            if span.start == timestamp < span.end:
                span.value = value
                return span.end
            if span.start < timestamp < span.end:
                self.ended.insert(index + 1, Span(timestamp, span.end, value))
                span.end = timestamp
                return self.ended[index + 1].end
        later = [span.start for span in self.ended if span.start > timestamp]
        if self.latest is not None:
            later.append(self.latest[1])
        if later:
            # A deletion without a version before it is now the end of what is put.
            self.ended = [span for span in self.ended if not span.start == span.end == later[0]]
            self.ended.append(Span(timestamp, later[0], value))
            self.ended.sort(key=lambda span: span.start)
            return later[0]
        if value is not None:
            self.latest = value, timestamp
        elif not any(span.end == timestamp for span in self.ended):
            self.ended.append(Span(timestamp, timestamp, None))
        return -1

    def as_of(self, timestamp: int, too_old: bool) -> tuple[str, int, int | None] | None:
        """Returns the value, its start and its end (None if there is none); None if there is no value."""
        if self.latest is not None and self.latest[1] <= timestamp:
            return (*self.latest, None)
        for span in () if too_old else self.ended:
            if span.start <= timestamp < span.end:
                return None if span.value is None else (span.value, span.start, span.end)
        return None


@dataclass
class Model:
    """All keys of a store that keeps ``history_ms``."""

    history_ms: int
    stream_time: int = -1
    keys: dict[str, Versions] = field(default_factory=dict)

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if timestamp < self.stream_time - self.history_ms:
            return NOT_PUT
        self.stream_time = max(self.stream_time, timestamp)
        return self.keys.setdefault(key, Versions()).put(value, timestamp)

    def get(self, key: str) -> tuple[str, int, int | None] | None:
        latest = self.keys.get(key, Versions()).latest
        return None if latest is None else (*latest, None)

    def as_of(self, key: str, timestamp: int) -> tuple[str, int, int | None] | None:
        return self.keys.get(key, Versions()).as_of(timestamp, timestamp < self.stream_time - self.history_ms)
