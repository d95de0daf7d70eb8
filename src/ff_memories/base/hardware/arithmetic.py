"""Arithmetic that gives the same bits on many CPUs.

A CPU's vendor and instruction set decide which kernel a library runs, and each kernel rounds in its own order. The
settings of ``PORTABLE`` hold every library to kernels that any x86-64 CPU with AVX2 has, Intel's or AMD's, with or
without AVX-512. Libraries read them when they are loaded, so ``use`` must come before numpy and torch.
"""

import os
from pathlib import Path

PORTABLE = {
    "OPENBLAS_CORETYPE": "Haswell",  # numpy's matrix products, which the model then uses (``model.products``)
    "OPENBLAS_NUM_THREADS": "1",  # several threads would cut long sums in other places
    "ATEN_CPU_CAPABILITY": "avx2",  # norms, softmax, sums
    "MKL_CBWR": "COMPATIBLE",  # exponentials and the like: MKL takes other paths on AMD's CPUs even for one branch
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
WITHOUT_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}  # numpy's exponentials and logarithms
THREADS = 1  # of a portable step: torch splits sums among threads, so their number would change the bits
CHOSEN = "FF_MEMORIES_ARITHMETIC"  # the arithmetic chosen for this process


def use(kind: str) -> None:
    """Set this process's environment for ``portable`` arithmetic; ``fast`` leaves it unchanged.

    A CPU without AVX2 cannot compute portably, so its environment stays unchanged too.
    """
    portable = kind == "portable" and "avx2" in instructions()
    os.environ[CHOSEN] = "portable" if portable else "fast"
    if portable:
        os.environ.update(PORTABLE | (WITHOUT_AVX512 if "avx512f" in instructions() else {}))


def portable() -> bool:
    """Return whether this process computes portably."""
    return os.environ.get(CHOSEN) == "portable"


def instructions() -> list[str]:
    """Return this CPU's vector instructions, widest last; none if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [name for name in ("sse4_2", "avx", "fma", "avx2", "avx512f", "amx_tile") if name in flags]
