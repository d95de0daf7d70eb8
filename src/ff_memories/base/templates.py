"""HTML from templates. Whatever is put into one is escaped, unless it is HTML that another template made."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment(package: str) -> Environment:
    """Return where a package's ``templates`` are filled in; names that they use and nobody gives are errors."""
    return Environment(
        loader=PackageLoader(f"ff_memories.{package}"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
