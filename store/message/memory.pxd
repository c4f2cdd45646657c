# What direct_read.py asks of the processor, to bring a line of memory closer, and of the garbage collector.
cdef extern from *:
    void fetch "__builtin_prefetch"(const void *address) nogil

cdef extern from "Python.h":
    bint PyObject_IS_GC(object)
    void PyObject_GC_UnTrack(object)
