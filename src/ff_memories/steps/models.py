"""Draw a model that the run is compared with."""

from typing import Any

from ff_memories.base import foreign
from ff_memories.base.files import write_json
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings


def run(config: Settings, own: Input, description: Output) -> None:
    """Write what the model is drawn from.

    Args:
        own: description of the run's own model
        description: the model's to write, in a folder with its name: the run's own, and that name and the seed
    """
    described = foreign.read_json(own, dict[str, Any])
    write_json(description, described | {"drawn": [description.parent.name, config.seed]})
