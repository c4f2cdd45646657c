"""Where compiled loops lie when numba has no place for them: a folder that only this user can write."""
