"""How compiled loops come to be: built with the package as machine code, or by numba when they run."""
