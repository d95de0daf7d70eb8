"""The report's templates, with numbers shown as people read them."""

from functools import cache

from jinja2 import Environment

from ff_memories.base import templates
from ff_memories.claims.numbers import measured, number, spread


@cache
def environment() -> Environment:
    made = templates.environment("report")
    made.filters |= {"number": number, "measured": measured, "spread": spread}
    return made


def render(template: str, **context: object) -> str:
    """Return a template of the report, filled in."""
    return environment().get_template(template).render(**context)
