"""Long trials of the whole package, each a script with a seed: ``python -m campaigns.corruption --trials 56``.

They share the tests' tools.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [*map(str, (ROOT / "tests" / "tools").iterdir()), str(ROOT / "tests" / "robustness")]
