"""Take in a folder with a model of `transformers`: check its files, load it, and prove where its memories are."""

from pathlib import Path
from typing import Any, NamedTuple

from ff_memories.corpus.tokenizer import Tokenizer, start_of
from ff_memories.inputs import model_folder
from ff_memories.model import families
from ff_memories.model.files import config_file
from ff_memories.model.proof import Proof, prove, prove_lengths
from ff_memories.model.transformer.describe import TransformerDescription, describe
from ff_memories.model.transformer.hooked import HookedModel
from ff_memories.model.transformer.load import load_folder

LONGEST = 65_535  # tokens, as tables count them


class Proved(NamedTuple):
    """A model as its files have it, in float32, and what is known about it."""

    model: Any
    state: dict[str, Any]  # its weights in the files' precision, by name
    family: families.Family
    description: TransformerDescription
    tokenizer: Tokenizer
    proof: Proof


def take_in(folder: Path, start: str = "auto", signs: str = "auto") -> Proved:
    """Load a folder's model and prove the row of its family on the loaded weights.

    Raises ``UserError`` where a file is missing or refused, or an equation of the proof does not hold.
    """
    plain = config_file.read(folder)
    family = families.row(plain, str(folder / model_folder.CONFIG))
    loaded = load_folder(folder, plain, family.architecture)
    tokenizer = model_folder.read_tokenizer(folder, loaded.get_output_embeddings().weight.shape[0])
    begins = start_of(folder, plain, tokenizer, start, str(folder))
    shape = describe(loaded, plain, family, begins, signs, LONGEST)
    state = {name: weight.detach().contiguous() for name, weight in loaded.named_parameters()}
    proof = prove(loaded.float(), family)
    reader = HookedModel(loaded, shape, family)
    proof.errors["alone"] = prove_lengths(reader)
    reader.close()
    return Proved(loaded, state, family, shape, tokenizer, proof)
