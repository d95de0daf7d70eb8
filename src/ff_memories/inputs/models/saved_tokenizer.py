"""The tokenizer that the installed `transformers` makes of a folder: what a run reads text with.

Its class may build it anew and use only some of tokenizer.json, and tokenizer_config.json may change it further. Code
that the folder names is never run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.model.files import config_file

FILE, CONFIG, MORE = "tokenizer.json", "tokenizer_config.json", ("special_tokens_map.json", "added_tokens.json")
SAVE = "save it with `transformers`: tokenizer.save_pretrained(folder)"


def read(folder: Path, vocab: int | None = None, sentences: Sequence[str] = ()) -> Tokenizer:
    """Return a folder's tokenizer.

    Args:
        vocab: how many types the model has.
        sentences: on which its ids are compared with those that ``transformers`` gives, besides a few short texts.

    Raises:
        UserError: a file is damaged or names more types than the model, tokens are drawn, ``transformers`` reads no
            fast tokenizer, or one that tokenizer.json cannot hold, or the ids differ.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging

    Tokenizer.read(folder / FILE, vocab)
    for path in (*folder.glob("*.json"), *folder.glob("**/*.jinja")):
        require_file(path)
    config = config_file.as_class(config_file.read(folder), str(folder))  # which holds nothing that is endless
    for name in (CONFIG, *MORE):
        if (folder / name).exists():
            foreign.read_json(folder / name, dict[str, Any], SAVE, text=True)
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        theirs = AutoTokenizer.from_pretrained(folder, config=config, local_files_only=True, trust_remote_code=False)
        if not isinstance(theirs, PreTrainedTokenizerFast):
            raise TypeError(f"{type(theirs).__name__} is no fast tokenizer")
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UserError(f"{folder}: `transformers` makes no tokenizer of {FILE} and {CONFIG} ({said})", SAVE) from None
    finally:
        logging.set_verbosity(verbosity)
    tokenizer = Tokenizer.of(theirs.backend_tokenizer.to_str(), str(folder / FILE))
    added = [str(token.content) for token in tokenizer.fast.get_added_tokens_decoder().values()]
    for text in ("The cat", *(f"a {token}b" for token in added[:20]), *sentences):
        ours = tokenizer.encode([text])
        try:
            wanted = theirs(text, add_special_tokens=False, verbose=False)["input_ids"]
        except (TypeError, ValueError) as error:
            raise UserError(f"{folder}: `transformers` cannot use {CONFIG} ({error})", SAVE) from None
        if wanted != ours:
            split = f"remove split_special_tokens from {CONFIG}" if theirs.split_special_tokens else SAVE
            raise UserError(
                f"{folder}: {FILE} gives {text[:40]!r} the ids {ours[:12]}, `transformers` {wanted[:12]}", split
            )
    return Tokenizer(tokenizer.fast, vocab)
