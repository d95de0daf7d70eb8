"""A run's card: what the model step found out about the checkpoint."""

import json
from pathlib import Path
from typing import Any

from ff_memories.errors import UserError, made_again
from ff_memories.files import require_file

NEEDED = ("scope", "layers", "keys", "vocab", "adaptive_output", "final_norm", "max_positions")


def read_card(path: str | Path) -> dict[str, Any]:
    """Read a ``card.json``. Raises ``UserError`` when it is missing, damaged or names no known scope."""
    require_file(path)
    try:
        card = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such card", made_again(path)) from None
    except ValueError as error:
        raise UserError(f"{path}: not readable as JSON: {error}", made_again(path)) from None
    lacking = [key for key in NEEDED if key not in card] if isinstance(card, dict) else list(NEEDED)
    if lacking:
        raise UserError(f"{path}: lacks {', '.join(lacking)}", made_again(path))
    if card["scope"] not in ("paper", "surrogate"):
        raise UserError(f"{path}: scope is {card['scope']!r}, neither paper nor surrogate")
    return card
