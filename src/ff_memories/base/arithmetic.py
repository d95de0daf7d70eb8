"""Arithmetic that gives the same bits on many CPUs.

A CPU's vendor and instruction set decide which kernel a library runs, and each kernel rounds in its own order. The
settings of ``PORTABLE`` hold every library to kernels that any x86-64 CPU with AVX2 has, Intel's or AMD's, with or
without AVX-512. Libraries read them when they are loaded, so they must be set before numpy and torch are imported.

A run also declares its precision (``extraction.precision``): how the factors of matrix products are rounded.
``float32`` rounds nothing, ``tf32`` keeps 11 significant bits of each factor and ``bfloat16`` 8. Sums of products,
norms, softmax, residuals and results are always float32.
"""

import os
from pathlib import Path
from typing import Literal

Precision = Literal["float32", "tf32", "bfloat16"]
ROUNDOFF: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bfloat16": 2.0**-8}  # of one factor

# Two coefficients this close, relative to the larger one, may be the same number computed in different batches or by
# different kernels. The limit is far above the noise (``audit.tolerances``).
SLACK: dict[Precision, float] = {"float32": 1e-4, "tf32": 16 * ROUNDOFF["tf32"], "bfloat16": 16 * ROUNDOFF["bfloat16"]}

PORTABLE = {
    "OPENBLAS_CORETYPE": "Haswell",  # numpy's matrix products, which the model then uses (``model.matmul``)
    "OPENBLAS_NUM_THREADS": "1",  # several threads would cut long sums in other places
    "ATEN_CPU_CAPABILITY": "avx2",  # norms, softmax, sums
    "MKL_CBWR": "COMPATIBLE",  # exponentials and the like: MKL takes other paths on AMD's CPUs even for one branch
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
WITHOUT_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}  # numpy's exponentials and logarithms
THREADS = 1  # of a portable step: torch splits sums among threads, so their number would change the bits
FAST_THREADS = 4  # of a fast step on a CPU
CHOSEN = "FF_MEMORIES_ARITHMETIC"  # the arithmetic chosen for this process


def environment(kind: str) -> dict[str, str]:
    """Return what an arithmetic sets in a process's environment: ``fast`` its name alone.

    A CPU without AVX2 can't compute portably, so its arithmetic is ``fast``.
    """
    if not portable_here(kind):
        return {CHOSEN: "fast"}
    return {CHOSEN: "portable"} | PORTABLE | (WITHOUT_AVX512 if "avx512f" in instructions() else {})


def portable_here(kind: str) -> bool:
    """Return whether a process with an arithmetic computes portably on this CPU."""
    return kind == "portable" and "avx2" in instructions()


def threads_of_a_job(kind: str, cores: int) -> int:
    """Return how many threads a step that runs the model has on a machine with so many cores."""
    return THREADS if portable_here(kind) else max(1, min(FAST_THREADS, cores))


def portable() -> bool:
    """Return whether this process computes portably."""
    return os.environ.get(CHOSEN) == "portable"


def instructions() -> list[str]:
    """Return this CPU's vector instructions, widest last; none if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])  # of x86, of ARM
    return [name for name in ("sse4_2", "avx", "fma", "avx2", "avx512f", "amx_tile") if name in flags]
