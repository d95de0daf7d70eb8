"""Render the report's templates, with filters that format numbers."""

from functools import cache

from jinja2 import Environment

from ff_memories.base.text import environment as templates
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, number, spread
from ff_memories.model.info import NOTICES


@cache
def environment() -> Environment:
    made = templates("report")
    made.filters |= {"number": number, "measured": measured, "spread": spread, "notice": NOTICES.__getitem__}
    made.globals |= {
        "verdicts": wording.VERDICTS,
        "word": wording.word,
        "trained": wording.TRAINING,
        "limits": wording.LIMITS,
    }
    return made


def render(template: str, **context: object) -> str:
    """Return a rendered template of the report."""
    return environment().get_template(template).render(**context)
