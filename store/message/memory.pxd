# What direct_read.py asks of the processor, to bring a line of memory closer, and of the garbage collector.
cdef extern from *:
    """
    /* gcc takes a function that does nothing but prefetch for one without effect, and leaves its calls out. The
       empty asm is an effect. */
    static inline void mqstore_fetch(const void *address) {
    #if defined(__GNUC__)
        __builtin_prefetch(address);
        __asm__ volatile("");
    #else
        (void)address;
    #endif
    }
    """
    void fetch "mqstore_fetch"(const void *address) nogil

cdef extern from "Python.h":
    bint PyObject_IS_GC(object)
    void PyObject_GC_UnTrack(object)
