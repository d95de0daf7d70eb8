"""Render HTML templates. Every value is escaped, except HTML that another template produced."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment(package: str) -> Environment:
    """Return the Jinja environment for a package's ``templates``; an undefined name in one is an error."""
    return Environment(
        loader=PackageLoader(f"ff_memories.{package}"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
