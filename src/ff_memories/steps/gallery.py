"""Build the gallery: a static site with every key's triggers and its value, with search and filters."""

from pathlib import Path

from ff_memories import tables as schemas
from ff_memories.base.files import in_project
from ff_memories.base.parameters import Input, Output, Param, Tables
from ff_memories.config import Settings
from ff_memories.model.info import neurons, read_info
from ff_memories.report.gallery import TABLES
from ff_memories.report.gallery import site as sites
from ff_memories.report.gallery.material import Material
from ff_memories.report.passages import Texts


def run(
    config: Settings,
    info: Input,
    corpus: Input,
    dictionary: Input,
    tables: Tables,
    configfile: Param | None,
    site: Output,
) -> None:
    """Write the site.

    Args:
        tables: those of ``report.gallery.TABLES``
        configfile: the run's config file, named in the commands that trace a text
        site: folder to write; open its index.html
    """
    described, texts, options = read_info(info), Texts.read(tables["sentences"], corpus, dictionary), config.gallery
    read = {name: schemas.read(tables[name]) for name in TABLES}
    material = Material(described["layers"], described["keys"], texts, read, options.triggers, neurons(described))
    sites.build(site, material, config, described, configfile and in_project(Path(configfile)))
