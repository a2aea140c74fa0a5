# cython: language_level=3, boundscheck=False, wraparound=False
"""The rows of ``kept_rows.py``, compiled: in their own memory, in a table by the hash of their keys. It returns the
same, but drops other rows to make room."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject, PyObject_Hash
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

cdef enum:
    FIRST_SLOTS = 256
    SLOT = 8
    ALLOCATION = 16  # what the allocator takes in addition to a row, rounding up included
    LEAST_DROPPED = 4096  # bytes

cdef uint32_t ABSENT = 0xFFFFFFFF


cdef struct Row:  # its key and its bytes follow
    Py_hash_t hash
    uint32_t key_bytes
    uint32_t row_bytes  # ABSENT: the store has no row of that key
    uint32_t was_used
    uint32_t room  # for key and row


@cython.final
@cython.no_gc
cdef class KeptRows:
    """Slots with open addressing. A hand that goes round the slots finds the rows to drop: a row that was used since
    the hand passed stays for one more round."""

    cdef Row **slots
    cdef Py_ssize_t mask, count, hand
    cdef readonly Py_ssize_t resident_bytes, hits

    def __dealloc__(self):
        self._free_all()

    def __len__(self):
        return self.count

    def __contains__(self, key):
        return self.count > 0 and PyBytes_Check(key) and self.slots[self._slot(key)] != NULL

    def get(self, key, unknown):
        cdef Row *row
        if not self.count or not PyBytes_Check(key):
            return unknown
        row = self.slots[self._slot(key)]
        if row == NULL:
            return unknown
        row.was_used = 1
        self.hits += 1
        if row.row_bytes == ABSENT:
            return None
        return PyBytes_FromStringAndSize(<char *> (row + 1) + row.key_bytes, row.row_bytes)

    def put(self, key, row):
        self._put(key, row)

    def put_some(self, dict rows, Py_ssize_t index, int most):
        cdef PyObject *key
        cdef PyObject *row
        while most and PyDict_Next(rows, &index, &key, &row):
            self._put(<object> key, <object> row)
            most -= 1
        return 0 if most else index

    def discard_all(self, rows):
        if self.count:
            for key in rows:
                self._discard(key)

    def drop_some(self):
        cdef Py_ssize_t least = max(LEAST_DROPPED, self.resident_bytes // 16), before = self.resident_bytes
        cdef Row *row
        if not self.count:
            return False
        while self.count and before - self.resident_bytes < least:
            row = self.slots[self.hand]
            if row != NULL and not row.was_used:
                self._remove(self.hand)  # and look at the slot again: another row may be there now
                continue
            if row != NULL:
                row.was_used = 0
            self.hand = (self.hand + 1) & self.mask
        if not self.count:
            self._free_all()
        return True

    def clear(self):
        self._free_all()

    cdef Py_ssize_t _slot(self, key) except -1:
        """The slot of ``key``, or the free slot that it would take."""
        cdef Py_hash_t hash = PyObject_Hash(key)
        cdef Py_ssize_t slot = hash & self.mask, length = PyBytes_GET_SIZE(key)
        cdef Row *row = self.slots[slot]
        while row != NULL:
            if row.hash == hash and row.key_bytes == length and not memcmp(row + 1, PyBytes_AS_STRING(key), length):
                return slot
            slot = (slot + 1) & self.mask
            row = self.slots[slot]
        return slot

    cdef int _discard(self, key) except -1:
        cdef Py_ssize_t slot
        if self.count and PyBytes_Check(key):
            slot = self._slot(key)
            if self.slots[slot] != NULL:
                self._remove(slot)
                if not self.count:
                    self._free_all()
        return 0

    cdef int _put(self, key, data) except -1:
        if not PyBytes_Check(key) or not (data is None or PyBytes_Check(data)):
            return self._discard(key)  # a serde's own kind of bytes, which RocksDB may refuse
        return self._put_bytes(key, data)

    cdef int _put_bytes(self, key, data) except -1:
        cdef uint32_t key_bytes = <uint32_t> PyBytes_GET_SIZE(key)
        cdef uint32_t row_bytes = ABSENT if data is None else <uint32_t> PyBytes_GET_SIZE(data)
        cdef uint32_t needed = key_bytes + (0 if data is None else row_bytes)
        cdef Py_ssize_t slot
        cdef Row *row
        if 3 * self.count >= 2 * (self.mask + 1) or self.slots == NULL:
            self._grow()
        slot = self._slot(key)
        row = self.slots[slot]
        if row == NULL or row.room < needed or row.room > 2 * needed + ALLOCATION:
            fresh = <Row *> malloc(sizeof(Row) + needed)
            if fresh == NULL:
                raise MemoryError()
            fresh.hash, fresh.key_bytes, fresh.room, fresh.was_used = PyObject_Hash(key), key_bytes, needed, 0
            memcpy(fresh + 1, PyBytes_AS_STRING(key), key_bytes)
            if row == NULL:
                self.count += 1
            else:
                fresh.was_used = row.was_used
                self._free_row(row)
            self.slots[slot] = row = fresh
            self.resident_bytes += sizeof(Row) + needed + ALLOCATION
        row.row_bytes = row_bytes
        if data is not None:
            memcpy(<char *> (row + 1) + key_bytes, PyBytes_AS_STRING(data), row_bytes)
        return 0

    cdef void _free_row(self, Row *row) noexcept:
        self.resident_bytes -= sizeof(Row) + row.room + ALLOCATION
        free(row)

    cdef void _remove(self, Py_ssize_t slot) noexcept:
        """Free a row and close the gap: each row after it must be found from its own slot on."""
        cdef Py_ssize_t at = slot
        cdef Row *row
        self._free_row(self.slots[slot])
        self.count -= 1
        while True:
            at = (at + 1) & self.mask
            row = self.slots[at]
            if row == NULL:
                break
            if ((at - row.hash) & self.mask) >= ((at - slot) & self.mask):
                self.slots[slot] = row
                slot = at
        self.slots[slot] = NULL

    cdef int _grow(self) except -1:
        cdef Row **before = self.slots
        cdef Row *row
        cdef Py_ssize_t slots_before = self.mask + 1 if before != NULL else 0, at, slot
        cdef Py_ssize_t number = 2 * slots_before or FIRST_SLOTS
        grown = <Row **> calloc(number, sizeof(Row *))
        if grown == NULL:
            raise MemoryError()
        self.slots, self.mask, self.hand = grown, number - 1, 0
        self.resident_bytes += (number - slots_before) * SLOT
        for at in range(slots_before):
            row = before[at]
            if row != NULL:
                slot = row.hash & self.mask
                while grown[slot] != NULL:
                    slot = (slot + 1) & self.mask
                grown[slot] = row
        free(before)
        return 0

    cdef void _free_all(self) noexcept:
        cdef Py_ssize_t at
        if self.slots != NULL:
            for at in range(self.mask + 1):
                free(self.slots[at])
            free(self.slots)
        self.slots = NULL
        self.mask = self.count = self.hand = self.resident_bytes = 0
