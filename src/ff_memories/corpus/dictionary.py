"""fairseq's dictionary: a model's token types, numbered in the file's order after four special types."""

from collections.abc import Iterable
from pathlib import Path

from ff_memories.base import foreign
from ff_memories.base.errors import UserError

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = 0, 1, 2, 3
BYTE_ORDER_MARK = "\ufeff"
OVERWRITE = " #fairseq:overwrite"  # at the end of a line whose type may be listed before


class Dictionary:
    """Token types and their ids, looked up exactly as in fairseq: an unlisted word is ``<unk>``.

    Args:
        types: the types in order, without the four special ones.
        counts: each type's count in the text that the dictionary was made from; ``None``: unknown.
    """

    unknown = UNK  # the id of words that are not listed

    def __init__(self, types: Iterable[str], counts: Iterable[int] | None = None):
        self.types = [*SPECIALS, *types]
        self.counts = None if counts is None else list(counts)
        self.ids = {word: i for i, word in enumerate(self.types)}

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, token: int) -> str:
        return self.types[token]

    def never_trained(self) -> list[int]:
        """Return the ids of the types that the model is never trained to predict, in ascending order.

        ``<s>`` and ``<pad>`` are never training targets. Nor are types with a count of zero, which fairseq adds to
        round up the vocabulary's size.
        """
        listed = enumerate(self.counts or (), len(SPECIALS))
        return [BOS, PAD, *(token for token, count in listed if count == 0)]

    def words(self, tokens: Iterable[int]) -> list[str]:
        """Return the words of consecutive tokens."""
        return [self.types[token] for token in tokens]

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the id of every word; unlisted words get the id of ``<unk>``."""
        ids = self.ids
        return [ids.get(word, UNK) for word in words]

    @classmethod
    def read(cls, path: str | Path) -> "Dictionary":
        """Read a ``dict.txt``: one ``token count`` per line, separated by the line's last space.

        Raises ``UserError``, with the line number, if the file is not a dictionary or lists a type twice.
        """
        text = foreign.read_text(path, "dictionary", "set model.dictionary to the checkpoint's dict.txt")
        if text.startswith(BYTE_ORDER_MARK):
            what = "begins with a byte order mark, which would become part of the first word"
            raise UserError(f"{path}: {what}", "save the file as UTF-8 without a byte order mark")
        lines = text.split("\n")
        types, counts, listed = list[str](), list[int](), set(SPECIALS)
        for number, line in enumerate(lines, 1):
            if not line and number == len(lines):
                break
            word, _, count = line.removesuffix(OVERWRITE).rpartition(" ")
            try:
                counts.append(int(count))  # as fairseq, which takes counts below 0 as well
            except ValueError:
                word = ""
            if not word:
                raise UserError(f"{path}, line {number}: expected `token count`, found {line[:60]!r}") from None
            if word in listed and not line.endswith(OVERWRITE):
                raise UserError(f"{path}, line {number}: {word!r} appears a second time")
            listed.add(word)
            types.append(word)
        if not types:
            raise UserError(f"{path}: the dictionary is empty")
        counted = min(counts) >= 0 < max(counts)  # others, such as scores, do not say what was never seen
        return cls(types, counts if counted else None)
