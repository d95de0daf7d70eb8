"""Train the model of a demo run of `transformers`, in an hour on two cores; what was stopped goes on where it was.

    python -m data.train_transformer {gpt2,llama}

``results/train`` then has demo_gpt2 (model and tokenizer), demo_gpt2.csv (validation perplexity by updates), and in
demo_gpt2-checkpoints a folder for each of the recipe's checkpoints, named after its updates.

Training is deterministic on one machine: the recipe's seed draws the weights, and the seed and an update's number draw
its batch. So training that was stopped continues with the batches it would have had.
"""

import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.base.progress import Progress
from ff_memories.config import read_yaml

START = "<|endoftext|>"
RESUMABLE_EVERY = 64  # updates
VALIDATION_BATCH = 16


def tokenizer(text: Path, types: int) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE tokenizer from a text file, one paragraph a line.

    Args:
        types: size of the vocabulary, ``<|endoftext|>`` (id 0) included.
    """
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    learned.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learned.train(
        [str(text)],
        trainers.BpeTrainer(vocab_size=types, special_tokens=[START], initial_alphabet=alphabet, show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=learned, bos_token=START, eos_token=START)


def stream(text: Path, learned: PreTrainedTokenizerFast) -> torch.Tensor:
    """Return (tokens,) int64: every paragraph's ids behind the id of ``<|endoftext|>``."""
    lines = text.read_text(encoding="utf-8").splitlines()
    encoded = learned.backend_tokenizer.encode_batch_fast(lines)
    return torch.tensor([i for paragraph in encoded for i in (learned.bos_token_id, *paragraph.ids)])


def windows(tokens: torch.Tensor, plan: dict[str, Any], update: int) -> torch.Tensor:
    """Return the batch of an update: (batch, window) token ids, drawn by the seed and the update's number."""
    draw = torch.Generator().manual_seed(plan["seed"] * 1_000_003 + update)
    starts = torch.randint(len(tokens) - plan["window"], (plan["batch"],), generator=draw)
    return tokens[starts[:, None] + torch.arange(plan["window"])]


def learning_rate(plan: dict[str, Any], update: int) -> float:
    """Return the rate of an update: linear warm-up, then a cosine down to a twentieth."""
    warm = min(1.0, (update + 1) / plan["warmup"])
    done = max(0.0, (update - plan["warmup"]) / (plan["updates"] - plan["warmup"]))
    return float(plan["lr"]) * warm * (0.525 + 0.475 * math.cos(math.pi * done))


@torch.no_grad()
def perplexity(model: PreTrainedModel, tokens: torch.Tensor, window: int) -> float:
    """Return a model's perplexity on a stream of tokens, cut into windows."""
    model.eval()
    whole = tokens[: len(tokens) // window * window].view(-1, window)
    loss, predicted = 0.0, 0
    for part in whole.split(VALIDATION_BATCH):
        logits = model(input_ids=part).logits[:, :-1].flatten(0, 1).float()
        loss += float(nn.functional.cross_entropy(logits, part[:, 1:].flatten(), reduction="sum"))
        predicted += part[:, 1:].numel()
    return math.exp(loss / predicted)


def save(model: PreTrainedModel, learned: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a model in half precision and its tokenizer, as `transformers` saves them."""
    half = type(model)(model.config).half()
    half.load_state_dict({name: tensor.half() for name, tensor in model.state_dict().items()})
    half.save_pretrained(folder)
    learned.save_pretrained(folder)


def fit(plan: dict[str, Any], text: Path, validation: Path, work: Path) -> list[tuple[int, float]]:
    """Train by a recipe, or continue; write a checkpoint at each of the recipe's updates to ``work/<update>``.

    Args:
        plan: config/demo_gpt2_model.yaml, or one like it.
        text, validation: raw text, one paragraph a line.
        work: folder of checkpoints and of the state to continue from.

    Returns:
        (update, validation perplexity) of every checkpoint.
    """
    work.mkdir(parents=True, exist_ok=True)
    learned = tokenizer(text, plan["types"])
    tokens, unseen = stream(text, learned), stream(validation, learned)
    torch.manual_seed(plan["seed"])
    start = learned.bos_token_id
    config = AutoConfig.for_model(
        **plan["model"], vocab_size=len(learned), bos_token_id=start, eos_token_id=start, pad_token_id=None
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=plan["weight_decay"])
    first, curve, seconds = 0, [], 0.0
    if (saved := work / "state.pt").is_file():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, curve, seconds = state["update"], state["curve"], state["seconds"]
        torch.random.set_rng_state(state["random"])
    began = time.monotonic() - seconds
    with Progress(plan["updates"], "updates", "trains") as progress:
        progress.step(first)
        for update in range(first, plan["updates"]):
            model.train()
            batch = windows(tokens, plan, update)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(plan, update)
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            progress.step(1)
            if update + 1 in plan["checkpoints"]:
                curve.append((update + 1, perplexity(model, unseen, plan["window"])))
                save(model, learned, work / str(update + 1))
                print(
                    f"update {update + 1}: loss {loss.item():.3f}, validation perplexity {curve[-1][1]:.1f}, "
                    f"{time.monotonic() - began:.0f} s",
                    flush=True,
                )
            if (update + 1) % RESUMABLE_EVERY == 0:
                with atomic_write(saved) as partial:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "curve": curve,
                            "update": update + 1,
                            "seconds": time.monotonic() - began,
                            "random": torch.random.get_rng_state(),
                        },
                        partial,
                    )
    return curve


def train(recipe: Path, text: Path, validation: Path, out: Path) -> None:
    """Train by a recipe on raw text, and write the folders ``out``, ``out``-checkpoints and the file ``out``.csv."""
    plan, work = read_yaml(recipe), out.with_name(f"work-{out.name}")
    curve = fit(plan, text, validation, work)
    checkpoints = out.with_name(f"{out.name}-checkpoints")
    for updates in plan["checkpoints"]:
        if not (work / str(updates)).is_dir():
            hint = f"correct the recipe's checkpoints, or remove {work} to train from the start"
            raise UserError(f"{work}: has no checkpoint {updates}, and the training is at its end", hint)
        shutil.copytree(work / str(updates), checkpoints / str(updates), dirs_exist_ok=True)
    shutil.copytree(work / str(plan["updates"]), out, dirs_exist_ok=True)
    rows = "".join(f"{updates},{perplexity:.2f}\n" for updates, perplexity in curve)
    out.with_name(f"{out.name}.csv").write_text("updates,perplexity\n" + rows)


if __name__ == "__main__":
    torch.set_num_threads(2)
    raw, name = Path("data/docstrings"), f"demo_{sys.argv[1]}"  # any run of the demo writes the text
    recipe = Path(f"config/{name}_model.yaml")
    train(recipe, raw / "raw_train.txt", raw / "raw_validation.txt", Path("results/train") / name)
