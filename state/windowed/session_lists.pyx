# cython: language_level=3, boundscheck=False, wraparound=False
"""The lists of ``recent_sessions.py``, compiled: of numbers instead of objects. They return the same."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from itertools import islice
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

cdef enum:
    OWN = 2  # sessions that need no memory of their own
    SAMPLED = 32
    KEY_BYTES = 280  # about what a key takes in the process: its object, its place in a dictionary, its list
    SESSION_BYTES = 16
    SEGMENT_BYTES = 8


cdef extern from *:
    """
    #define big_endian(number) ((int64_t) __builtin_bswap64((uint64_t) (number)))
    """
    int64_t big_endian(int64_t number) nogil


cdef int64_t LARGEST = 0x7FFFFFFFFFFFFFFF


cdef struct Session:
    int64_t end
    int64_t start


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Sessions:
    """The sessions of one key, in order: all sessions whose end is later than ``mark``."""

    cdef int64_t mark
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef Session *at
    cdef Session own[OWN]

    def __cinit__(self):
        self.at, self.room = self.own, OWN

    def __dealloc__(self):
        if self.at != self.own:
            free(self.at)

    cdef int insert(self, int64_t end, int64_t start) except -1:
        cdef Py_ssize_t place = self.count
        cdef Session *grown
        if self.count == self.room:
            grown = <Session *> malloc(2 * self.room * sizeof(Session))
            if grown == NULL:
                raise MemoryError()
            memcpy(grown, self.at, self.count * sizeof(Session))
            if self.at != self.own:
                free(self.at)
            self.at, self.room = grown, 2 * self.room
        while place > 0 and (
            self.at[place - 1].end > end or (self.at[place - 1].end == end and self.at[place - 1].start > start)
        ):
            self.at[place] = self.at[place - 1]
            place -= 1
        self.at[place].end, self.at[place].start = end, start
        self.count += 1
        return 0

    cdef int remove(self, int64_t end, int64_t start) except -1:
        cdef Py_ssize_t place = self.count - 1
        while place >= 0 and (self.at[place].end != end or self.at[place].start != start):
            place -= 1
        if place < 0:
            raise ValueError("the key has no such session")
        memmove(&self.at[place], &self.at[place + 1], (self.count - place - 1) * sizeof(Session))
        self.count -= 1
        return 0

    cdef void drop_until(self, int64_t time) noexcept:
        cdef Py_ssize_t first = 0
        while first < self.count and self.at[first].end <= time:
            first += 1
        if first:
            memmove(self.at, &self.at[first], (self.count - first) * sizeof(Session))
            self.count -= first


@cython.final
cdef class SessionLists:
    """See ``recent_sessions.py``."""

    cdef int64_t gap_ms
    cdef int64_t mark_of_others
    cdef dict of
    cdef dict older
    cdef object key
    cdef Sessions last

    def __init__(self, gap_ms, int64_t time):
        self.gap_ms = min(gap_ms, LARGEST)
        self.mark_of_others = time
        self.of, self.older = {}, {}

    cdef Sessions known(self, object key):
        """Returns the list of a key, from now on one of those that were used; None if there is none."""
        cdef Sessions there
        if key is self.key:
            return self.last
        found = self.of.get(key)
        if found is None:
            found = self.older.pop(key, None) if self.older else None
            if found is None:
                return None
            there = <Sessions> found
            if there.mark < self.mark_of_others:
                there.drop_until(self.mark_of_others)
                there.mark = self.mark_of_others
            self.of[key] = there
        self.key, self.last = key, <Sessions> found
        return self.last

    cdef Sessions listed(self, object key):
        cdef Sessions there = self.known(key)
        if there is None:
            raise KeyError(key)
        return there

    cdef Sessions made(self, object key, int64_t mark):
        cdef Sessions there = Sessions.__new__(Sessions)
        there.mark = mark
        self.of[key] = there
        self.key, self.last = key, there
        return there

    def find(self, key, int64_t time):
        """See ``recent_sessions.py``."""
        cdef int64_t earliest_end = time - self.gap_ms if time > self.gap_ms else 0
        cdef int64_t latest_start = time + self.gap_ms if time < LARGEST - self.gap_ms else LARGEST
        cdef Sessions there = self.known(key)
        cdef Py_ssize_t place
        if there is None:
            if self.mark_of_others >= earliest_end:
                return None
            self.made(key, self.mark_of_others)
            return ()
        if there.mark >= earliest_end:
            return None
        place = there.count
        if place == 0 or there.at[place - 1].end < earliest_end:
            return ()
        while place > 0 and there.at[place - 1].end >= earliest_end:
            place -= 1
        found = []
        while place < there.count:
            if there.at[place].start <= latest_start:
                found.append((there.at[place].end, there.at[place].start))
            place += 1
        return found

    def loaded(self, key, int64_t mark, sessions):
        """See ``recent_sessions.py``."""
        cdef Sessions there
        self.forget(key, mark)
        there = self.last
        for end, start in sessions:
            there.insert(end, start)

    def add(self, key, int64_t end, int64_t start):
        """See ``recent_sessions.py``."""
        cdef Sessions there = self.listed(key)
        there.insert(end, start)
        return there.count

    def replace(self, key, deleted_topics, int64_t end, int64_t start):
        """See ``recent_sessions.py``."""
        cdef Sessions there = self.remove(key, deleted_topics)
        there.insert(end, start)
        return there.count

    cpdef Sessions remove(self, object key, deleted_topics):
        """See ``recent_sessions.py``."""
        cdef Sessions there = self.listed(key)
        for end, start in deleted_topics:
            there.remove(end, start)
        return there

    def drop_until(self, key, int64_t time):
        """See ``recent_sessions.py``."""
        self.listed(key).drop_until(time)

    def forget(self, key, int64_t mark=LARGEST):
        """See ``recent_sessions.py``."""
        self.older.pop(key, None)
        self.made(key, mark)

    def clear(self, int64_t time):
        """See ``recent_sessions.py``."""
        self.of, self.older = {}, {}
        self.key = self.last = None
        self.mark_of_others = time

    def age(self, int64_t time):
        """See ``recent_sessions.py``."""
        self.mark_of_others = max(self.mark_of_others, time)
        self.older, self.of = self.of, {}
        self.key = self.last = None

    def forget_until(self, int64_t time):
        """See ``recent_sessions.py``."""
        cdef Sessions there
        cdef dict kept = {}
        for key, found in self.older.items():
            there = <Sessions> found
            if there.mark <= time:
                there.drop_until(time)
                there.mark = time
                if there.count == 0:
                    continue
            kept[key] = there
        self.older = kept
        self.mark_of_others = max(self.mark_of_others, time)

    def resident_bytes(self):
        """See ``recent_sessions.py``."""
        cdef Py_ssize_t keys = len(self.of) + len(self.older), sampled = 0, sessions = 0
        if not keys:
            return 0.0
        for found in islice((self.of or self.older).values(), SAMPLED):
            sampled += 1
            sessions += (<Sessions> found).count
        return keys * (KEY_BYTES + SESSION_BYTES * sessions / <double> sampled)


def session_end(key):
    """See ``keys.py``."""
    cdef int64_t end
    if not isinstance(key, bytes) or PyBytes_GET_SIZE(key) < 16:
        raise ValueError(f"no key of a session: {key!r}")
    memcpy(&end, PyBytes_AS_STRING(key) + PyBytes_GET_SIZE(key) - 16, 8)
    return big_endian(end)


def session_row(key, int64_t end, int64_t start, int64_t interval_ms):
    """See ``recent_sessions.py``."""
    if not isinstance(key, bytes):
        raise TypeError(f"a key of bytes expected, not {type(key).__name__}")
    cdef Py_ssize_t length = PyBytes_GET_SIZE(key)
    cdef bytes row = PyBytes_FromStringAndSize(NULL, SEGMENT_BYTES + length + 16)
    cdef char *at = PyBytes_AS_STRING(row)
    cdef int64_t number[2]
    if end < 0 or start < 0:
        raise ValueError(f"no session goes from {start} to {end}")
    number[0] = big_endian(end // interval_ms)
    memcpy(at, number, SEGMENT_BYTES)
    memcpy(at + SEGMENT_BYTES, PyBytes_AS_STRING(key), length)
    number[0], number[1] = big_endian(end), big_endian(start)
    memcpy(at + SEGMENT_BYTES + length, number, 16)
    return row
