# cython: language_level=3, boundscheck=False, wraparound=False
"""The hashes of ``murmur2.py`` and ``murmur3.py``, compiled. They give the same, to the bit."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef inline uint32_t _little_4(const unsigned char* at) noexcept nogil:
    return at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)


cdef inline uint64_t _little(const unsigned char* at, Py_ssize_t length) noexcept nogil:
    cdef uint64_t number = 0
    cdef Py_ssize_t place
    for place in range(length):
        number |= <uint64_t>at[place] << (8 * place)
    return number


cdef inline uint64_t _rotated(uint64_t number, int bits) noexcept nogil:
    return (number << bits) | (number >> (64 - bits))


cdef inline uint64_t _mixed(uint64_t h) noexcept nogil:
    h = (h ^ (h >> 33)) * <uint64_t>0xFF51AFD7ED558CCD
    h = (h ^ (h >> 33)) * <uint64_t>0xC4CEB9FE1A85EC53
    return h ^ (h >> 33)


cpdef uint32_t murmur2(bytes data) except? 0:
    """See ``murmur2.py``."""
    if data is None:
        raise TypeError("bytes expected, not None")
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t whole = length - length % 4
    cdef Py_ssize_t place
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef uint32_t k
    for place in range(0, whole, 4):
        k = _little_4(at + place) * m
        k = (k ^ (k >> 24)) * m
        h = (h * m) ^ k
    if length != whole:
        h = (h ^ <uint32_t>_little(at + whole, length - whole)) * m
    h = (h ^ (h >> 13)) * m
    return h ^ (h >> 15)


def partition_for(bytes key, int32_t partitions):
    """See ``murmur2.py``."""
    return <int32_t>(murmur2(key) & 0x7FFFFFFF) % partitions


def murmur3_128(bytes data not None):
    """See ``murmur3.py``."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t whole = length // 16 * 16
    cdef Py_ssize_t left = length - whole
    cdef Py_ssize_t place
    cdef uint64_t c1 = <uint64_t>0x87C37B91114253D5
    cdef uint64_t c2 = <uint64_t>0x4CF5AD432745937F
    cdef uint64_t h1 = 104729
    cdef uint64_t h2 = 104729
    cdef unsigned char result[16]
    for place in range(0, whole, 16):
        h1 ^= _rotated(_little(at + place, 8) * c1, 31) * c2
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729
        h2 ^= _rotated(_little(at + place + 8, 8) * c2, 33) * c1
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5
    if left:
        h1 ^= _rotated(_little(at + whole, left if left < 8 else 8) * c1, 31) * c2
        if left > 8:
            h2 ^= _rotated(_little(at + whole + 8, left - 8) * c2, 33) * c1
    h1 ^= <uint64_t>length
    h2 ^= <uint64_t>length
    h1 += h2
    h2 += h1
    h1 = _mixed(h1)
    h2 = _mixed(h2)
    h1 += h2
    h2 += h1
    for place in range(8):
        result[place] = (h1 >> (56 - 8 * place)) & 0xFF
        result[8 + place] = (h2 >> (56 - 8 * place)) & 0xFF
    return PyBytes_FromStringAndSize(<char*>result, 16)
