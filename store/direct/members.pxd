# What direct_put.py asks a descriptor: where the objects of a class keep one of their fields.
cdef extern from "structmember.h":
    int T_OBJECT_EX

    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset

    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
