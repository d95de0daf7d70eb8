"""The gallery: a static site, without server or build chain, that shows every key's triggers beside its value.

It is made of parts, loaded when they are looked at: one index for each layer, shards of keys with their triggers, and
an index of words. ``docs/gallery.md`` says what addresses it has and how its parts are laid out.
"""
