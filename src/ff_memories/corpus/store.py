"""The corpus as the model reads it: token ids of all sentences in one file."""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file

# prefix lengths in a sentence of N tokens: from the first, to N plus the second, inclusive
POSITIONS = {"inner": (1, -1), "released": (0, -1), "full": (1, 0)}
COUNTED = ("paragraphs", "headings_dropped", "sentences_split", "tokens", "tokens_unknown", "tokens_pad")


@dataclass(frozen=True)
class Corpus:
    """The sentences of both splits: train first, then validation."""

    tokens: np.ndarray  # (tokens,) int32, all sentences concatenated
    offsets: np.ndarray  # (sentences + 1,) int64, where each sentence starts in ``tokens``
    train: int  # number of sentences in the training split, which have the lowest ids
    begins: np.ndarray | None = None  # (tokens,) bool, which tokens begin a word; ``None`` where tokens are words
    numbers: np.ndarray | None = None  # (sentences,) int64, of a sample: its sentences' numbers in the run's corpus

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(sentences,) number of tokens in each sentence, without ``</s>``."""
        return np.diff(self.offsets)

    def sentence(self, index: int) -> np.ndarray:
        """Return a sentence's token ids."""
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def sample(self, seed: int, sentences: int) -> "Corpus":
        """Return so many random training sentences and all validation sentences; all, if there are no more."""
        sampled = generator(seed, "baseline sentences").permutation(self.train)[:sentences]
        numbers = np.concatenate([np.sort(sampled), np.arange(self.train, len(self))])
        offsets = np.concatenate([[0], np.cumsum(self.lengths[numbers])])
        inside = np.repeat(np.isin(np.arange(len(self)), numbers), self.lengths)
        begins = None if self.begins is None else self.begins[inside]
        return Corpus(self.tokens[inside], offsets, len(sampled), begins, numbers)

    def following(self, sentence: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the token after each prefix (n,) int64, given its sentence and length; -1 at a sentence's end."""
        inside = position < self.lengths[sentence]
        at = np.where(inside, self.offsets[sentence] + position, 0)
        return np.where(inside, self.tokens[at], -1).astype(np.int64)


def available(corpus: Corpus, positions: str) -> np.ndarray:
    """Return (sentences,) how many prefixes each training sentence has to offer."""
    low, high = POSITIONS[positions]
    return np.maximum(corpus.lengths[: corpus.train] + high - low + 1, 0)


class Words:
    """Which tokens of prefixes make up words, in the corpus of a model with a tokenizer."""

    def __init__(self, corpus: Corpus):
        assert corpus.begins is not None, "of a fairseq model, the config refuses words"
        # (words + 1,) the place of each word's first token among the corpus' tokens; then their number
        self.starts = np.append(np.flatnonzero(corpus.begins), len(corpus.tokens))
        # (tokens,) how many words begin up to each token, itself included
        self.through, self.offsets = np.cumsum(corpus.begins, dtype=np.uint32), corpus.offsets

    def count(self, sentence: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return how many words prefixes have, the last one perhaps cut short; 0 of the empty prefix.

        ``sentence``: (rows,) numbers of sentences; ``position``: (rows,) lengths of prefixes, in tokens.
        """
        first = self.offsets[sentence]
        through = self.through[np.maximum(first + position - 1, 0)].astype(np.int64)
        return np.where(position > 0, through - self.through[first].astype(np.int64) + 1, 0)

    def span(self, sentence: np.ndarray, position: np.ndarray, word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first token (rows,) of a word of each prefix, from 1, and how many tokens the prefix has of it.

        ``sentence``, ``position``: as of ``count``; ``word``: (rows,) which word, from 1.
        """
        first = self.offsets[sentence]
        index = self.through[first].astype(np.int64) - 2 + word
        start, end = self.starts[index], np.minimum(self.starts[index + 1], first + position)
        return start - first + 1, end - start


@dataclass
class Sentences:
    """The sentences of one split: flat token ids, the start of each sentence, and its place in the files.

    ``begins`` has a 1 for each token that begins a word; it is empty where tokens are words. ``inside`` has, of each
    sentence that begins or ends inside a word, how many characters of that word are before it, and its own number.
    """

    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    offsets: "array[int]" = field(default_factory=lambda: array("q", [0]))
    begins: "array[int]" = field(default_factory=lambda: array("b"))
    file: list[str] = field(default_factory=list)
    line: "array[int]" = field(default_factory=lambda: array("I"))
    first_token: "array[int]" = field(default_factory=lambda: array("I"))
    inside: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def add(self, ids: list[int], file: str, line: int, first_token: int, begins: Sequence[bool] = ()) -> None:
        self.tokens.extend(ids)
        self.begins.extend(begins)
        self.offsets.append(len(self.tokens))
        self.file.append(file)
        self.line.append(line)
        self.first_token.append(first_token)

    def frame(self, split: str, first_sentence: int) -> pl.DataFrame:
        """Return the split's rows of the ``sentences`` table, numbered from ``first_sentence``."""
        lengths = np.diff(np.frombuffer(self.offsets, dtype=np.int64))
        frame = pl.DataFrame(
            {
                "sentence": np.arange(first_sentence, first_sentence + len(self), dtype=np.uint32),
                "split": [split] * len(self),
                "file": self.file,
                "line": np.array(self.line, dtype=np.uint32),
                "first_token": np.array(self.first_token, dtype=np.uint32),
                "tokens": lengths,
            }
        )
        if self.inside:
            spans = [self.inside.get(number, (None, None)) for number in range(len(self))]
            columns = {"first_character": pl.UInt32, "characters": pl.UInt32}
            frame = frame.hstack(pl.DataFrame(spans, schema=columns, orient="row"))
        return frame


def write(train: Sentences, validation: Sentences, path: str | Path) -> None:
    """Write the corpus atomically."""
    first, second = (np.frombuffer(s.offsets, dtype=np.int64) for s in (train, validation))
    tokens, begins = train.tokens + validation.tokens, train.begins + validation.begins
    offsets = np.concatenate([first, first[-1] + second[1:]])
    starts_word = np.frombuffer(begins, np.int8) == 1 if begins else None
    write_sample(Corpus(np.frombuffer(tokens, np.int32), offsets, len(train), starts_word), path)


def write_sample(corpus: Corpus, path: str | Path) -> None:
    """Write a corpus, or a sample of one (``Corpus.sample``), atomically."""
    arrays = {"tokens": corpus.tokens, "offsets": corpus.offsets, "begins": corpus.begins, "numbers": corpus.numbers}
    whole = {name: array for name, array in arrays.items() if array is not None}
    with atomic_write(path) as partial:
        save_file(whole, partial, metadata={"train": json.dumps(corpus.train)})


def read(path: str | Path) -> Corpus:
    """Read a corpus file. Raises ``UserError`` if it is damaged."""
    require_file(path)
    try:
        with safe_open(path, framework="np") as file:
            train = json.loads(file.metadata()["train"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        read_ = Corpus(arrays["tokens"], arrays["offsets"], train, arrays.get("begins"), arrays.get("numbers"))
        if not _whole(read_):
            raise ValueError("its offsets do not fit its tokens")
    except (SafetensorError, LookupError, OSError, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a corpus ({error})", rebuild_hint(path)) from None
    return read_


def _whole(corpus: Corpus) -> bool:
    """Return whether a corpus' sentences are those of its tokens."""
    offsets, begins = corpus.offsets, corpus.begins
    fits = offsets[0] == 0 and offsets[-1] == len(corpus.tokens) and bool((np.diff(offsets) > 0).all())
    fits = fits and 0 <= corpus.train <= len(corpus)
    if begins is not None:
        fits = fits and begins.shape == corpus.tokens.shape and bool(begins[offsets[:-1]].all())
    return fits and (corpus.numbers is None or len(corpus.numbers) == len(corpus))
