"""Show how a text goes through a model's memories: as data, as a page, as lines. ``docs/trace.md`` describes them."""
