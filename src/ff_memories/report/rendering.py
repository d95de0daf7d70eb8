"""Templates to HTML. Whatever is put into one is escaped, unless it is HTML that another template made."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from ff_memories.claims.numbers import measured, number, spread


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ff_memories.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"number": number, "measured": measured, "spread": spread}
    return made


def render(template: str, **context: object) -> str:
    """Return a template of this package, filled in. Names that it uses and nobody gives are errors."""
    return environment().get_template(template).render(**context)
