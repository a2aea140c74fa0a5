# cython: language_level=3
"""The hot part of ``plain_json.py``, compiled: its first check of what is read and written. Does exactly the same."""

from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject

import msgspec
import orjson

cdef object _decode = msgspec.json.Decoder().decode
cdef object _dumps = orjson.dumps
cdef object _read_long = None
cdef object _write_carefully = None
cdef Py_ssize_t _surely_flat = 0
cdef int _max_depth = 0


def configure(Py_ssize_t surely_flat, int max_depth, read_long, write_carefully):
    """Sets the limits of ``plain_json.py``, and its functions for whatever is not plain at first sight."""
    global _surely_flat, _max_depth, _read_long, _write_carefully
    _surely_flat, _max_depth, _read_long, _write_carefully = surely_flat, max_depth, read_long, write_carefully


def read_json(data):
    """See ``plain_json.py``."""
    if len(data) <= _surely_flat:
        return _decode(data)
    return _read_long(data)


def write_json(value):
    """See ``plain_json.py``."""
    if _carries(value, _max_depth):
        try:
            return _dumps(value)
        except TypeError:  # keys, integers beyond 64 bits, broken text
            pass
    return _write_carefully(value)


cdef bint _carries(object value, int room) except -1:
    cdef Py_ssize_t position = 0
    cdef PyObject *each = NULL
    cdef object kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return -1e16 < <double> value < 1e16
    if kind is dict:
        if room == 0:
            return False
        while PyDict_Next(value, &position, NULL, &each):
            if not _carries(<object> each, room - 1):
                return False
        return True
    if kind is list:
        if room == 0:
            return False
        for part in <list> value:
            if not _carries(part, room - 1):
                return False
        return True
    return False
