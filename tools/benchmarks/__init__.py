"""How fast the engine is, against what it cannot do without and against how it is done elsewhere."""

import os

if "OMP_WAIT_POLICY" not in os.environ:  # before torch is loaded: threads wait as they do under ff-memories
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
