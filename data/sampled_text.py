"""A text that a model of the registry writes: sampled from it at temperature 1, with a seed.

Each story begins behind the model's first token and ends where the model begins or ends a text, or at the last whole
sentence that it takes. All numbers are in float64 and draws are made beforehand, so another machine writes the same
text. Next tokens in it are the model's own draws (``judge.wording``).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ff_memories.base.files import write_whole
from ff_memories.base.progress import Progress
from ff_memories.inputs.registry import Source

SEED = 1
STORIES = {"train": 300, "validation": 100}
AT_ONCE = 50


class Float64(TorchFunctionMode):
    """Keep float64 where `transformers` takes float32 whatever the weights are: norms, rotary positions.

    Float32's last bits depend on the machine, and one of 60,000 draws may lie between two machines' probabilities.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wide = lambda value: torch.float64 if value is torch.float32 else value
        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(wide, args), **{name: wide(value) for name, value in (kwargs or {}).items()})


def make(source: Source, model: Path) -> None:
    """Write a source's texts, a paragraph a line.

    Args:
        model: folder with the model that writes them.
    """
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    with Float64():
        made = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    draws = np.random.default_rng(SEED)
    with Float64(), Progress(sum(STORIES.values()), "stories", source.folder) as bar:
        for split, number in STORIES.items():
            stories: list[str] = []
            while len(stories) < number:
                uniform = draws.random((min(AT_ONCE, number - len(stories)), made.config.max_position_embeddings - 1))
                stories += map(whole, tokenizer.batch_decode(sample(made, uniform), skip_special_tokens=True))
                bar.step(len(uniform))
            lines = [line for story in stories for line in map(str.strip, story.splitlines()) if line]
            write_whole(source.path(split), "".join(f"{line}\n" for line in lines))


@torch.inference_mode()
def sample(model: Any, uniform: np.ndarray) -> list[list[int]]:
    """Return the token ids of texts that a model writes, without the first and the last.

    Args:
        model: a causal language model of `transformers`.
        uniform: (texts, tokens) draws from 0 to 1: token t is the first whose cumulative probability exceeds draw t.
    """
    config = model.config
    tokens, cache = torch.full((len(uniform), 1), config.bos_token_id), None
    written = np.full(uniform.shape, -1)
    for place in range(uniform.shape[1]):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        reached, cache = out.logits[:, -1].softmax(-1).cumsum(-1), out.past_key_values
        wanted = torch.from_numpy(uniform[:, place, None]) * reached[:, -1:]
        tokens = torch.searchsorted(reached, wanted, right=True).clamp(max=reached.shape[1] - 1)
        written[:, place] = tokens[:, 0]
        if np.isin(written, (config.bos_token_id, config.eos_token_id)).any(1).all():
            break
    ends = [np.flatnonzero(np.isin(text, (config.bos_token_id, config.eos_token_id))) for text in written]
    return [text[: end[0] if len(end) else None].tolist() for text, end in zip(written, ends, strict=True)]


def whole(story: str) -> str:
    """Return a story up to the end of its last whole sentence."""
    ends = [match.end() for match in re.finditer(r"[.!?][\"'”’]*(?=\s|$)", story)]
    return story[: ends[-1]] if ends else ""
