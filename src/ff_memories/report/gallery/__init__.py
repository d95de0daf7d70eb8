"""Build the gallery: a static site, without server or build chain, of every key's triggers beside its value.

It consists of parts that the page loads on demand: one index per layer, shards of keys with their triggers, and
an index of words. ``docs/gallery.md`` describes its addresses; the function that writes a part, its layout.
"""

# what it is made from besides text; light to import, since workflows read it
TABLES = (
    "triggers", "values", "mutations", "annotations", "pattern_labels", "sentences", "promoted", "demoted", "firing",
    "levels", "histogram", "samples", "similar", "causal",
)  # fmt: skip
