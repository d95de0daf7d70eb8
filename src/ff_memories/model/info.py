"""The model info: what the model step found out about the checkpoint."""

import json
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import require_file

SCOPES = ("paper", "surrogate", "model")  # whose results a run's are: see ``steps.model``
NEEDED = ("scope", "layers", "keys", "vocab", "adaptive_output", "final_norm", "max_positions")


def read_info(path: str | Path) -> dict[str, Any]:
    """Read a ``info.json``. Raises ``UserError`` when it is missing, damaged or names no known scope."""
    require_file(path)
    try:
        info = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", rebuild_hint(path)) from None
    except ValueError as error:
        raise UserError(f"{path}: not readable as JSON: {error}", rebuild_hint(path)) from None
    lacking = [key for key in NEEDED if key not in info] if isinstance(info, dict) else list(NEEDED)
    if lacking:
        raise UserError(f"{path}: lacks {', '.join(lacking)}", rebuild_hint(path))
    if info["scope"] not in SCOPES:
        raise UserError(f"{path}: scope is {info['scope']!r}, none of {', '.join(SCOPES)}")
    return info
