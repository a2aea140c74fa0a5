# cython: language_level=3, boundscheck=False, wraparound=False
"""``RecentRows`` of ``recent_rows.py``, compiled. It returns the same.

Most of the cost of a join's record there is cache misses and the garbage collector, not instructions: so a row is one
object that the collector does not see, its time is a number in it, and a key with one row in a pane has no list.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

cdef extern from "Python.h":
    PyObject *PyDict_SetDefault(dict rows, object key, object row) except NULL

cdef tuple NOTHING = ()


@cython.final
@cython.no_gc  # a value does not refer to the rows, so what is reached from here is no cycle
@cython.freelist(1024)
cdef class Row:
    cdef int64_t time
    cdef object value
    cdef bytes logged_key


cdef inline tuple _shown(Row row):
    return row.time, row.value, row.logged_key


@cython.final
cdef class Pane:
    """A pane. ``rows`` has, by key, one row or a list of several."""

    cdef dict rows
    cdef list updates
    cdef Py_ssize_t taken

    def __cinit__(self):
        self.rows, self.updates, self.taken = {}, [], 0


cdef PyObject *_get(dict rows, object key) except? NULL:
    """Returns a borrowed reference; NULL if there is none."""
    return PyDict_GetItemWithError(rows, key)


cdef inline Py_ssize_t _first(list rows, int64_t time, bint after):
    """The index of the first of ``rows`` that is not before ``time``, or, with ``after``, that is after it."""
    cdef Py_ssize_t low = 0, high = len(rows), middle
    cdef int64_t found
    while low < high:
        middle = (low + high) // 2
        found = (<Row> rows[middle]).time
        if found < time or (after and found == time):
            low = middle + 1
        else:
            high = middle
    return low


@cython.final
cdef class RecentRows:
    """See ``recent_rows.py``."""

    cdef readonly int64_t pane_ms
    cdef readonly uint64_t complete_from  # after the last possible time if nothing is known
    cdef dict panes
    # The panes that were asked for last, mostly the two that a window reaches into.
    cdef Pane _pane
    cdef Pane _other_pane
    cdef int64_t _number
    cdef int64_t _other_number

    def __init__(self, retention_ms):
        self.pane_ms = max(retention_ms // 3, 1)
        self.panes = {}
        self.forget(0)

    cdef Pane _find_pane(self, int64_t number):
        """Returns the pane of this number; None if there is none."""
        cdef PyObject *found
        if number != self._number:
            self._pane, self._other_pane = self._other_pane, self._pane
            self._number, self._other_number = self._other_number, self._number
            if number != self._number:
                found = _get(self.panes, number)
                self._pane, self._number = None if found == NULL else <Pane> <object> found, number
        return self._pane

    def add(self, key, int64_t time, value, bytes logged_key):
        """See ``recent_rows.py``."""
        cdef int64_t number = time // self.pane_ms
        cdef Pane pane = self._find_pane(number)
        cdef Row row = Row.__new__(Row)
        cdef object before
        cdef list rows
        if <uint64_t> time < self.complete_from:
            return False
        if pane is None:
            pane = self._pane = self.panes[number] = Pane()
        row.time, row.value, row.logged_key = time, value, logged_key
        pane.updates.append(row)
        before = <object> PyDict_SetDefault(pane.rows, key, row)
        if before is row:
            return True
        if type(before) is Row:
            before = pane.rows[key] = [before]
        rows = <list> before
        if (<Row> rows[len(rows) - 1]).time <= time:
            rows.append(row)
        else:
            rows.insert(_first(rows, time, True), row)
        return True

    def of_key(self, key, int64_t time_from, int64_t time_to):
        """See ``recent_rows.py``."""
        cdef int64_t number = time_from // self.pane_ms - 1, last = time_to // self.pane_ms
        cdef Py_ssize_t index
        cdef Pane pane
        cdef PyObject *rows
        cdef Row row
        cdef list found = None
        if <uint64_t> time_from < self.complete_from:
            return None
        while number < last:  # the largest number has no successor, so none is computed
            number += 1
            pane = self._find_pane(number)
            rows = NULL if pane is None else _get(pane.rows, key)
            if rows == NULL:
                continue
            if type(<object> rows) is Row:
                row = <Row> <object> rows
                if time_from <= row.time <= time_to:
                    if found is None:
                        found = []
                    found.append(_shown(row))
                continue
            for index in range(_first(<list> <object> rows, time_from, False), len(<list> <object> rows)):
                row = <Row> (<list> <object> rows)[index]
                if row.time > time_to:
                    break
                if found is None:
                    found = []
                found.append(_shown(row))
        return NOTHING if found is None else found

    def expire(self, int64_t first_visible):
        """See ``recent_rows.py``."""
        cdef int64_t end = first_visible // self.pane_ms
        self._forget_last()
        for number in [number for number in self.panes if number < end]:
            del self.panes[number]

    def drop_oldest(self):
        """See ``recent_rows.py``."""
        self._forget_last()
        oldest = min(self.panes)
        del self.panes[oldest]
        self.complete_from = max(self.complete_from, (oldest + 1) * self.pane_ms)

    def forget(self, uint64_t complete_from):
        """See ``recent_rows.py``."""
        self._forget_last()
        self.panes.clear()
        self.complete_from = complete_from

    cdef void _forget_last(self):
        self._pane = self._other_pane = None
        self._number = self._other_number = -1  # none is asked for

    def take_updates(self):
        """See ``recent_rows.py``."""
        cdef list taken = []
        cdef Pane pane
        cdef Row row
        for pane in self.panes.values():
            for row in pane.updates:
                taken.append(_shown(row))
            pane.taken += len(pane.updates)
            pane.updates = []
        return taken

    def count(self):
        """See ``recent_rows.py``."""
        cdef Pane pane
        cdef Py_ssize_t count = 0
        for pane in self.panes.values():
            count += pane.taken + len(pane.updates)
        return count

    def count_updates(self):
        """See ``recent_rows.py``."""
        cdef Pane pane
        cdef Py_ssize_t count = 0
        for pane in self.panes.values():
            count += len(pane.updates)
        return count
