"""Show how a text goes through a model's memories: as data, as a page, as lines. ``docs/gallery.md`` describes them."""
