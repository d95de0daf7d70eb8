"""Build the gallery: a static site with every key's triggers and its value, with search and filters."""

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.model.info import neurons, read_info
from ff_memories.report.gallery import site as sites
from ff_memories.report.gallery.material import Material
from ff_memories.report.passages import Texts


def run(
    config: Settings,
    info: Input,
    corpus: Input,
    sentences: Input,
    dictionary: Input,
    triggers: Input,
    values: Input,
    mutations: Input,
    annotations: Input,
    labels: Input,
    promoted: Input,
    demoted: Input,
    firing: Input,
    levels: Input,
    histogram: Input,
    samples: Input,
    similar: Input,
    site: Output,
) -> None:
    """Write the site.

    Args:
        labels: the table pattern_labels
        site: folder to write; open its index.html
    """
    described, texts, options = read_info(info), Texts.read(sentences, corpus, dictionary), config.gallery
    if described["vocab"] != len(texts.dictionary):
        raise UserError(
            f"{dictionary}: has {len(texts.dictionary)} token types, but the model has {described['vocab']}"
        )
    material = Material(
        described["layers"], described["keys"], texts, tables.read(triggers), tables.read(values),
        tables.read(mutations), tables.read(annotations), tables.read(labels), tables.read(sentences),
        tables.read(promoted), tables.read(demoted), tables.read(firing), tables.read(levels),
        tables.read(histogram), tables.read(samples), tables.read(similar), options.triggers, neurons(described),
        config.looked_at is not None or options.keys is not None,
    )  # fmt: skip
    sites.build(site, material, config, described)
