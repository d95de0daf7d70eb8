"""Keep memory that a process frees: its next array takes what the last one had, and no page is cleared in between."""

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_MAX
KEPT = 128 << 20  # free bytes at the heap's end, above which they go back to the system


def keep_freed() -> bool:
    """Have this process's allocator keep what it frees; return whether it can, which glibc's alone does.

    Otherwise glibc maps each array of some megabytes anew and the system clears its pages: up to a fifth of the time of
    steps that run the model. No number depends on it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, KEPT))
