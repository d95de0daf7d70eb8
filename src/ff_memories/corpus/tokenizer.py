"""A model's token types: those of fairseq's dictionary, or of a fast tokenizer of `tokenizers` (tokenizer.json).

A tokenizer encodes a sentence by itself, its words with one blank between them, without special tokens. No code runs
that comes with the file.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ff_memories.base import foreign
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.corpus.dictionary import BOS, PAD, Dictionary

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Fast

BLANK = "␣"  # how a token's leading blank is shown
BLANKS = ("Ġ", "▁")  # what tokenizers write for a blank
_UNREADABLE = "\ufffd"
PATTERNS = "give a tokenizer whose patterns (Regex in tokenizer.json) have no repetition within a repetition"
UNKNOWN = "give a tokenizer.json whose unk_token is one of its types"

# How byte-level tokenizers write bytes: printable ones as themselves, the others by the characters from U+0100 on.
_PRINTED = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = {chr(b): b for b in _PRINTED} | {
    chr(0x100 + i): b for i, b in enumerate(b for b in range(0x100) if b not in _PRINTED)
}


class Tokenizer:
    """Token types, numbered and used as those of ``dictionary.Dictionary``.

    ``vocab``: how many types the model has, if the tokenizer may name fewer.
    """

    def __init__(self, fast: "Fast", vocab: int | None = None):
        self.fast = fast
        self._vocab = vocab

    def __len__(self) -> int:
        return self._vocab or 1 + max(self.fast.get_vocab(with_added_tokens=True).values(), default=-1)

    @cached_property
    def _texts(self) -> tuple[list[str], set[int]]:
        """Each type's text, with the blank that it begins with; and the ids of types that are no text.

        These are parts of a character, and special tokens. Types that the tokenizer does not name are empty.
        """
        out, parts = [""] * len(self), set()
        added = self.fast.get_added_tokens_decoder()
        decode = self.fast.decoder.decode if self.fast.decoder is not None else "".join
        for token, number in self.fast.get_vocab(with_added_tokens=True).items():
            if number >= len(out):
                continue
            if number in added:
                out[number] = str(added[number].content)
                if added[number].special:
                    parts.add(number)
                continue
            text = decode([token])
            begins = token.startswith(BLANKS) and not text.startswith(" ")
            if _UNREADABLE in text:
                out[number] = _bytes(token)
                parts.add(number)
            else:
                out[number] = (" " if begins else "") + text
        return out, parts

    def folded(self) -> np.ndarray:
        """Return the class of every type, (vocab,) int64: the lowest id of types alike but for case and blanks.

        Blanks are those around a type's text: "The", " the" and "the" are one class. Types without text are classes of
        their own: blanks, parts of a character, special tokens, and types that the tokenizer does not name.
        """
        texts, parts = self._texts
        out, first = np.arange(len(self)), dict[str, int]()
        for number, surface in enumerate(texts):
            text = surface.strip()
            if self.fast.decoder is None:  # then a type's text has the mark of its blank
                text = text.lstrip("".join(BLANKS))
            if text and number not in parts:
                out[number] = first.setdefault(text.casefold(), number)
        return out

    @cached_property
    def types(self) -> list[str]:
        """The word or piece of every type, without the blank that it begins with."""
        return [text.strip() or text.replace("\n", "\\n").replace("\t", "\\t") for text in self._texts[0]]

    def __getitem__(self, token: int) -> str:
        """Return a type as it is shown: a leading blank as ``␣``, a type without a text by its number."""
        text = self._texts[0][token]
        if not text:
            return f"<{token}>"
        return BLANK + text[1:] if text.startswith(" ") and len(text) > 1 else text

    def words(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of consecutive tokens as words: pieces of a word are put together."""
        return self.fast.decode([int(token) for token in tokens], skip_special_tokens=False).split()

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the token ids of a sentence, given its words."""
        return self._encoded(" ".join(words)).ids

    def _encoded(self, text: str) -> "Encoding":
        """Return a text's encoding. Raises ``UserError`` where the tokenizer fails, or adds a type to the model's."""
        try:
            encoding = self.fast.encode(text, add_special_tokens=False)
        except BaseException as error:
            hints = {"PanicException": PATTERNS, "Exception": UNKNOWN}  # the library's own; the first is no Exception
            if type(error).__name__ not in hints:
                raise
            raise UserError(f"the tokenizer fails on {text[:60]!r} ({error})", hints[type(error).__name__]) from None
        if self._vocab is not None and max(encoding.ids, default=0) >= self._vocab:
            token = self.fast.id_to_token(max(encoding.ids))
            hint = "remove it from the text"
            raise UserError(f"the text has {token!r}, a token that the model has no vector for", hint)
        return encoding

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return the token ids of a sentence and, of each token, whether a word begins with it.

        A word begins at the sentence's beginning and behind every blank, by the tokenizer's offsets. A token of nothing
        but a blank belongs to the word behind it; words that share a token count as one.
        """
        encoding = self._encoded(" ".join(words))
        start, end = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2).T
        blanks = np.cumsum([len(word) + 1 for word in words]) - 1  # the place behind each word
        first = np.minimum(np.searchsorted(blanks, start, side="right"), len(words) - 1)  # number of a token's word
        last = np.maximum.accumulate(np.maximum(first, np.searchsorted(blanks, end - 1, side="left")))
        begins = np.ones(len(first), dtype=bool)
        begins[1:] = first[1:] > last[:-1]
        return encoding.ids, begins.tolist()

    def never_trained(self) -> list[int]:
        """Return the ids of the types that the tokenizer gives no text, in ascending order: a model pads its matrix."""
        return [number for number, text in enumerate(self._texts[0]) if not text]

    @property
    def unknown(self) -> int | None:
        """The id for text that no type can write; ``None`` for a byte-level tokenizer, which can write all text."""
        token = getattr(self.fast.model, "unk_token", None)
        return None if token is None else self.fast.token_to_id(token)

    @classmethod
    def read(cls, path: str | Path, vocab: int | None = None) -> "Tokenizer":
        """Read a tokenizer.json. Raises ``UserError`` where it is none, or names more types than the model."""
        text = foreign.read_text(path, "tokenizer", "give a folder with the model's tokenizer.json")
        return cls.of(text, str(path), vocab)

    @classmethod
    def of(cls, text: str, path: str, vocab: int | None = None) -> "Tokenizer":
        """Make a tokenizer from the text of a tokenizer.json; ``path`` names it in messages. Errors as of ``read``."""
        from tokenizers import Tokenizer as Fast

        try:
            fast = Fast.from_str(text)
        except Exception as error:  # the library raises plain Exception
            raise UserError(f"{path}: not a readable tokenizer ({str(error)[:200]})", "fetch the file again") from None
        for key in ("dropout", "alpha"):
            if probability := getattr(fast.model, key, None):
                raise UserError(
                    f"{path}: {key} of its model is {probability}: the tokens of a text would be drawn anew each time",
                    f'set "{key}" to null in that file, as for inference',
                )
        fast.no_padding()
        fast.no_truncation()
        named = cls(fast)
        if vocab is not None and len(named) > vocab:
            hint = "give the tokenizer.json that was saved with the model"
            raise UserError(f"{path}: the tokenizer has {len(named)} types, the model {vocab}", hint)
        return cls(fast, vocab)


def _bytes(token: str) -> str:
    """Return a byte-level token that is no whole text with its bytes spelled out: ``<0x96>``; any other as it is."""
    if not all(char in _BYTES for char in token):
        return token
    text = bytes(_BYTES[char] for char in token)
    return "".join(chr(b) if 0x20 <= b < 0x7F else f"<0x{b:02X}>" for b in text)


def start_of(folder: Path, config: dict[str, Any], tokenizer: Tokenizer, given: str, where: str) -> int:
    """Return the id of the token that every sentence begins with (``model.start``).

    ``auto``: the beginning-of-sequence token that tokenizer_config.json or config.json names, or else the separator of
    documents, ``<|endoftext|>``. Raises ``UserError`` where there is none, or the tokenizer does not have it.
    """
    names: list[Any] = [given]
    if given == "auto":
        path, saved = folder / "tokenizer_config.json", dict[str, Any]()
        if path.exists():
            saved = foreign.read_json(path, dict[str, Any], "fetch the file again", text=True)
        bos = saved.get("bos_token")
        names = [bos.get("content") if isinstance(bos, dict) else bos, "<|endoftext|>"]
        number = config.get("bos_token_id")
        if names[0] is None and isinstance(number, int) and 0 <= number < len(tokenizer):
            return number
    for name in names:
        token = tokenizer.fast.token_to_id(name) if isinstance(name, str) else None
        if token is not None and token < len(tokenizer):
            return token
    what = "names no token that a text begins with" if given == "auto" else f"has no token {given!r}"
    added = [str(token.content) for token in tokenizer.fast.get_added_tokens_decoder().values()][:3]
    such = f", such as {' or '.join(added)}" if added else ""
    raise UserError(f"{where}: the tokenizer {what}", f"set model.start to a token of the tokenizer{such}")


Types = Dictionary | Tokenizer


def read_types(path: str | Path) -> Types:
    """Read a ``dict.txt``, or a ``types.json`` that the model step wrote. Raises ``UserError`` where it is neither."""
    path = Path(path)
    if path.suffix != ".json":
        return Dictionary.read(path)
    try:
        saved = json.loads(foreign.read_text(path, "list of types", rebuild_hint(path)))
        return Tokenizer.of(json.dumps(saved["tokenizer"]), str(path), saved["vocab"])
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: not the types of a model ({error})", rebuild_hint(path)) from None


def write_types(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer as tokenizer.json has it, with the number of types that its model has."""
    content = {"vocab": len(tokenizer), "tokenizer": json.loads(tokenizer.fast.to_str())}
    write_whole(path, json.dumps(content, ensure_ascii=False) + "\n")


def never_trained(path: Path | None) -> list[int]:
    """Return ``never_trained`` of a file's types; without a file, what every dictionary has: ``<s>`` and ``<pad>``."""
    return [BOS, PAD] if path is None else read_types(path).never_trained()


def folded(types: Types) -> np.ndarray | None:
    """Return ``Tokenizer.folded``; ``None`` for a dictionary, whose runs compare ids alone."""
    return types.folded() if isinstance(types, Tokenizer) else None
