# cython: language_level=3, boundscheck=False, wraparound=False
"""The rows of ``gathered_rows.py``, compiled: in their own memory, sorted without the GIL. It returns the same."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject_DelItem, PyObject_SetItem
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

cdef enum:
    FRONT = 16  # number of bytes of a key that its entry holds
    BLOCK = 16  # entries that are sorted by insertion
    LENGTHS = 8  # before key and row: their lengths
    MOST_RUNS = 64  # each is twice as long as the next one: there are never so many
    FIRST_ENTRIES = 1024
    FIRST_BYTES = 65536

cdef uint32_t DELETION = 0xFFFFFFFF


cdef extern from *:
    """
    #define big_endian(number) __builtin_bswap64(number)
    """
    uint64_t big_endian(uint64_t number) nogil


cdef struct Entry:  # of one row
    uint64_t high
    uint64_t low  # the first bytes of its key, as numbers that compare as they do
    uint64_t at  # its index in the piece of memory


cdef inline bint _less(const Entry *one, const Entry *other, const uint8_t *memory) noexcept nogil:
    cdef uint32_t length, other_length
    cdef int order
    if one.high != other.high:
        return one.high < other.high
    if one.low != other.low:
        return one.low < other.low
    memcpy(&length, memory + one.at, 4)
    memcpy(&other_length, memory + other.at, 4)
    order = memcmp(
        memory + one.at + LENGTHS, memory + other.at + LENGTHS, length if length < other_length else other_length
    )
    return order < 0 or (order == 0 and length < other_length)


cdef void _merge(Entry *left, Py_ssize_t middle, Py_ssize_t end, Entry *spare, const uint8_t *memory) noexcept nogil:
    """Merge two adjacent runs into one; of equal keys the later one remains after the earlier."""
    cdef Py_ssize_t from_left = middle - 1, from_right = end - middle - 1, to = end - 1
    if not _less(left + middle, left + middle - 1, memory):
        return
    memcpy(spare, left + middle, (end - middle) * sizeof(Entry))
    while from_right >= 0:
        if from_left >= 0 and _less(spare + from_right, left + from_left, memory):
            left[to] = left[from_left]
            from_left -= 1
        else:
            left[to] = spare[from_right]
            from_right -= 1
        to -= 1


cdef void _sort(Entry *entries, Py_ssize_t count, Entry *spare, const uint8_t *memory) noexcept nogil:
    cdef Py_ssize_t begin, at, place, size, end
    cdef Entry moved
    begin = 0
    while begin < count:
        end = begin + BLOCK if begin + BLOCK < count else count
        for at in range(begin + 1, end):
            moved = entries[at]
            place = at
            while place > begin and _less(&moved, entries + place - 1, memory):
                entries[place] = entries[place - 1]
                place -= 1
            entries[place] = moved
        begin = end
    size = BLOCK
    while size < count:
        begin = 0
        while begin + size < count:
            end = begin + 2 * size if begin + 2 * size < count else count
            _merge(entries + begin, size, end - begin, spare, memory)
            begin += 2 * size
        size *= 2


cdef class _Range:  # of keys; what was added before ``until`` is forgotten
    cdef bytes from_key
    cdef bytes to_key
    cdef uint64_t until


cdef inline int _compare(const uint8_t *key, uint32_t length, bytes other) noexcept:
    cdef uint32_t other_length = <uint32_t> PyBytes_GET_SIZE(other)
    cdef int order = memcmp(key, PyBytes_AS_STRING(other), length if length < other_length else other_length)
    return order if order else <int> (length > other_length) - <int> (length < other_length)


@cython.final
@cython.no_gc
cdef class GatheredRows:
    """The rows in one piece of memory, and an entry for each. The entries of each dictionary are a sorted run, which is
    merged with the run before it if that is at most twice as long."""

    cdef Entry *_entries
    cdef Entry *_spare
    cdef uint8_t *_memory
    cdef Py_ssize_t _count, _room, _spare_room
    cdef Py_ssize_t _bytes, _bytes_room
    cdef Py_ssize_t _runs[MOST_RUNS]  # where each run ends
    cdef int _run_count
    cdef Py_ssize_t _passed
    cdef list _ranges

    def __cinit__(self):
        self._ranges = []

    def __dealloc__(self):
        free(self._entries)
        free(self._spare)
        free(self._memory)

    @property
    def resident_bytes(self):
        return self._bytes + (self._count + self._spare_room) * <Py_ssize_t> sizeof(Entry)

    def add(self, dict rows):
        cdef Py_ssize_t begin = self._count, at = 0
        cdef PyObject *key
        cdef PyObject *row
        self._make_room(len(rows))
        while PyDict_Next(rows, &at, &key, &row):
            self._add(<object> key, <object> row)
        if self._count > begin:
            self._make_spare(self._count - begin)
            with nogil:
                _sort(self._entries + begin, self._count - begin, self._spare, self._memory)
            self._runs[self._run_count] = self._count
            self._run_count += 1
            self._merge_runs(False)

    cdef int _add(self, key, row) except -1:
        cdef uint32_t key_bytes = <uint32_t> PyBytes_GET_SIZE(key)
        cdef uint32_t row_bytes = DELETION if row is None else <uint32_t> PyBytes_GET_SIZE(row)
        cdef Py_ssize_t needed = self._bytes + LENGTHS + key_bytes + (0 if row is None else row_bytes)
        cdef uint8_t *to
        cdef uint64_t front[2]
        cdef Entry *entry = self._entries + self._count
        if needed > self._bytes_room:
            self._make_bytes(needed)
        to = self._memory + self._bytes
        memcpy(to, &key_bytes, 4)
        memcpy(to + 4, &row_bytes, 4)
        memcpy(to + LENGTHS, PyBytes_AS_STRING(key), key_bytes)
        if row is not None:
            memcpy(to + LENGTHS + key_bytes, PyBytes_AS_STRING(row), row_bytes)
        front[0] = front[1] = 0
        memcpy(front, to + LENGTHS, key_bytes if key_bytes < FRONT else FRONT)
        entry.high, entry.low = big_endian(front[0]), big_endian(front[1])
        entry.at = self._bytes
        self._bytes = needed
        self._count += 1
        return 0

    cdef int _merge_runs(self, bint all) except -1:
        """Merge runs, so that a row is merged only as often as the row count doubles; ``all``: until one is left."""
        cdef Py_ssize_t begin, middle, end
        while self._run_count > 1:
            end = self._runs[self._run_count - 1]
            middle = self._runs[self._run_count - 2]
            begin = self._runs[self._run_count - 3] if self._run_count > 2 else 0
            if not all and middle - begin > 2 * (end - middle):
                break
            self._make_spare(end - middle)
            with nogil:
                _merge(self._entries + begin, middle - begin, end - begin, self._spare, self._memory)
            self._run_count -= 1
            self._runs[self._run_count - 1] = end
        return 0

    def delete_range(self, bytes from_key, bytes to_key):
        cdef _Range known, fresh = _Range()
        fresh.from_key, fresh.to_key, fresh.until = from_key, to_key, <uint64_t> self._bytes
        cdef list others = []
        for known in self._ranges:
            if known.from_key < from_key or known.to_key > to_key:
                others.append(known)  # mostly there is none: it is the same expiry, further on
        others.append(fresh)
        self._ranges = others

    cdef bint _is_deleted(self, const uint8_t *key, uint32_t length, uint64_t at):
        cdef _Range deleted
        for deleted in self._ranges:
            if at < deleted.until and _compare(key, length, deleted.from_key) >= 0:
                if _compare(key, length, deleted.to_key) < 0:
                    return True
        return False

    def write(self, writer, Py_ssize_t most):
        cdef const Entry *entries = self._entries
        cdef const uint8_t *memory = self._memory
        cdef const uint8_t *key_at
        cdef uint32_t lengths[2]
        cdef uint64_t at
        cdef Py_ssize_t written = 0
        cdef bint ranges = bool(self._ranges)
        self._merge_runs(True)
        while self._passed < self._count and written < most:
            at = entries[self._passed].at
            self._passed += 1
            if self._passed < self._count and not _less(
                entries + self._passed - 1, entries + self._passed, memory
            ):
                continue  # the same key follows, and was added later
            memcpy(lengths, memory + at, LENGTHS)
            key_at = memory + at + LENGTHS
            if ranges and self._is_deleted(key_at, lengths[0], at):
                continue
            key = PyBytes_FromStringAndSize(<const char *> key_at, lengths[0])
            if lengths[1] == DELETION:
                PyObject_DelItem(writer, key)
            else:
                PyObject_SetItem(
                    writer, key, PyBytes_FromStringAndSize(<const char *> key_at + lengths[0], lengths[1])
                )
            written += 1
        return written

    cdef int _make_room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room = self._room or FIRST_ENTRIES
        while room < self._count + more:
            room *= 2
        if room > self._room:
            grown = <Entry *> realloc(self._entries, room * sizeof(Entry))
            if grown == NULL:
                raise MemoryError()
            self._entries, self._room = grown, room
        return 0

    cdef int _make_spare(self, Py_ssize_t room) except -1:
        if room > self._spare_room:
            free(self._spare)
            self._spare_room = 0
            self._spare = <Entry *> malloc(room * sizeof(Entry))
            if self._spare == NULL:
                raise MemoryError()
            self._spare_room = room
        return 0

    cdef int _make_bytes(self, Py_ssize_t needed) except -1:
        cdef Py_ssize_t room = self._bytes_room or FIRST_BYTES
        while room < needed:
            room *= 2
        grown = <uint8_t *> realloc(self._memory, room)
        if grown == NULL:
            raise MemoryError()
        self._memory, self._bytes_room = grown, room
        return 0
