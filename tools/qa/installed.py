"""Try an installed package outside of a clone: the command, and a tiny model with its triggers and values.

    python installed.py

It runs with the Python of the environment to try, and needs nothing but the package. `make release` calls it.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import ff_memories
from ff_memories import load_model, trigger_examples, value_predictions

TYPES = 280  # 256 bytes, the separator and a few pieces


def main() -> None:
    """Print the number of the tiny model's triggers; end with an error if anything fails."""
    command = Path(sys.executable).with_name("ff-memories")
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
    draw = random.Random(1)
    lines = [" ".join(draw.choices(["a red cat", "the old dog", "sees", "an owl"], k=6)) + "." for _ in range(40)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        pieces = ByteLevelBPETokenizer()
        pieces.train([str(folder / "text.txt")], TYPES, special_tokens=["<s>"], show_progress=False)
        learned = PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, bos_token="<s>", eos_token="<s>")
        sizes = GPT2Config(
            vocab_size=len(learned), n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0
        )
        GPT2LMHeadModel(sizes).save_pretrained(folder)
        learned.save_pretrained(folder)
        model = load_model(folder)
        found = trigger_examples(model, lines, [(1, 0)], top=3)
        promoted = value_predictions(model, 1, 0, top=3)
    assert len(found) == len(promoted) == 3
    where = Path(ff_memories.__file__).parent
    needed = ("Snakefile", "workflow/Snakefile", "data/demo/model.pt")
    lacking = [name for name in needed if not (where / "project" / name).is_file()]
    assert not lacking, f"{where} lacks {', '.join(lacking)}"
    print(f"{where}: {len(found)} triggers, {len(promoted)} promoted tokens")


if __name__ == "__main__":
    main()
