# cython: language_level=3, boundscheck=False, wraparound=False
"""The functions of ``subscriptions.py``, compiled: in Python, a subscription costs mostly calls and copies that are
thrown away. They return the same, and leave anything unusual to the functions in Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

cdef enum:
    NUMBER = 4
    FIRST = 2  # version and instruction
    HASH = 16
    USUAL = 1  # the first byte of a subscription of version 1 with a hash
    USUAL_ANSWER = 0  # that of its response


cdef extern from *:
    """
    #define big_endian(number) __builtin_bswap32(number)
    """
    uint32_t big_endian(uint32_t number) nogil


cdef object _in_python(name):
    from penstock.tasks.operators import subscriptions  # which imports this module

    return getattr(subscriptions, name)


cdef inline bint _is_usual(subscription) noexcept:
    return (
        PyBytes_CheckExact(subscription)
        and PyBytes_GET_SIZE(subscription) >= FIRST + HASH + NUMBER
        and (<const uint8_t *> PyBytes_AS_STRING(subscription))[0] == USUAL
    )


def prefix_of(row):
    cdef uint32_t length
    if not PyBytes_CheckExact(row) or PyBytes_GET_SIZE(row) < NUMBER:
        return _in_python("_prefix_of")(row)
    memcpy(&length, PyBytes_AS_STRING(row), NUMBER)
    length = big_endian(length)
    if length > PyBytes_GET_SIZE(row) - NUMBER:
        return _in_python("_prefix_of")(row)
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(row), NUMBER + length)


def row_key(foreign_key, subscription):
    cdef Py_ssize_t before, key
    cdef uint32_t length
    cdef char *to
    if not _is_usual(subscription) or not PyBytes_CheckExact(foreign_key):
        return _in_python("_row_key")(foreign_key, subscription)
    before, key = PyBytes_GET_SIZE(foreign_key), PyBytes_GET_SIZE(subscription) - FIRST - HASH - NUMBER
    length = big_endian(<uint32_t> before)
    row = PyBytes_FromStringAndSize(NULL, NUMBER + before + key)
    to = PyBytes_AS_STRING(row)
    memcpy(to, &length, NUMBER)
    memcpy(to + NUMBER, PyBytes_AS_STRING(foreign_key), before)
    memcpy(to + NUMBER + before, PyBytes_AS_STRING(subscription) + FIRST + HASH, key)
    return row


def primary_key(subscription):
    if not _is_usual(subscription):
        return _in_python("_primary_key")(subscription)
    return PyBytes_FromStringAndSize(
        PyBytes_AS_STRING(subscription) + FIRST + HASH, PyBytes_GET_SIZE(subscription) - FIRST - HASH - NUMBER
    )


def response_to(subscription, data):
    cdef uint32_t partition
    cdef char *to
    if not _is_usual(subscription) or not PyBytes_CheckExact(data):
        return _in_python("_response_to")(subscription, data)
    memcpy(&partition, PyBytes_AS_STRING(subscription) + PyBytes_GET_SIZE(subscription) - NUMBER, NUMBER)
    response = PyBytes_FromStringAndSize(NULL, 1 + HASH + PyBytes_GET_SIZE(data))
    to = PyBytes_AS_STRING(response)
    to[0] = USUAL_ANSWER
    memcpy(to + 1, PyBytes_AS_STRING(subscription) + FIRST, HASH)
    memcpy(to + 1 + HASH, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return <int32_t> big_endian(partition), response


def value_if_current(response, hashed):
    if (
        not PyBytes_CheckExact(response)
        or not PyBytes_CheckExact(hashed)
        or PyBytes_GET_SIZE(response) < 1 + HASH
        or PyBytes_AS_STRING(response)[0] != USUAL_ANSWER
    ):
        return _in_python("_value_if_current")(response, hashed)
    if PyBytes_GET_SIZE(hashed) != HASH or memcmp(PyBytes_AS_STRING(response) + 1, PyBytes_AS_STRING(hashed), HASH):
        return None
    return PyBytes_FromStringAndSize(
        PyBytes_AS_STRING(response) + 1 + HASH, PyBytes_GET_SIZE(response) - 1 - HASH
    )
