# What direct_put.py takes from crc32.h.
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc32.h" nogil:
    void crc32_prepare()
    uint32_t crc32_of(const uint8_t *data, size_t size, uint32_t crc)
    void publish_first_bytes(uint8_t *target, const uint8_t *source)
    void empty_wide_registers()
    int are_wide_registers_full()
