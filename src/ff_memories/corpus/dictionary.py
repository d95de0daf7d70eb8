"""fairseq's dictionary: the token types of a model, numbered in the order of its file after four specials."""

from collections.abc import Iterable
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = 0, 1, 2, 3
BYTE_ORDER_MARK = "\ufeff"
REMOVE_MARK = "save the file as UTF-8 without one"
_OVERWRITE = "#fairseq:overwrite"


class Dictionary:
    """Token types and their ids, looked up exactly as fairseq does: what is not listed is ``<unk>``.

    Args:
        types: in order, without the four specials.
        counts: how often each occurs in the text that the dictionary was made from; left out: not known.
    """

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

        ``<s>`` and ``<pad>`` are no training targets. Nor is a type that the dictionary counts zero times: fairseq adds
        such types to round the vocabulary's size.
        """
        listed = enumerate(self.counts or (), len(SPECIALS))
        return [BOS, PAD, *(token for token, count in listed if count == 0)]

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the id of every word; ``<unk>``'s for words that are not listed."""
        ids = self.ids
        return [ids.get(word, UNK) for word in words]

    @classmethod
    def read(cls, path: str | Path) -> "Dictionary":
        """Read a ``dict.txt``: one ``token count`` per line, the last blank separating the two.

        Raises ``UserError`` with the line where the file is no dictionary or lists a type twice.
        """
        require_file(path)
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{path}: no such dictionary", "give model.dictionary the checkpoint's dict.txt") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
        if text.startswith(BYTE_ORDER_MARK):
            raise UserError(f"{path}: begins with a byte order mark, which would belong to the first word", REMOVE_MARK)
        lines = text.split("\n")
        types: list[str] = []
        counts: list[int] = []
        place: dict[str, int] = {word: i for i, word in enumerate(SPECIALS)}
        for number, line in enumerate(lines, 1):
            if not line and number == len(lines):
                break
            overwrite = line.endswith(" " + _OVERWRITE)
            word, blank, count = line.removesuffix(" " + _OVERWRITE).rpartition(" ")
            if not blank or not word or not count.isdecimal():
                raise UserError(f"{path}, line {number}: expected `token count`, found {line[:60]!r}")
            if word in place and not overwrite:
                raise UserError(f"{path}, line {number}: {word!r} is listed before")
            place[word] = len(SPECIALS) + len(types)
            types.append(word)
            counts.append(int(count))
        if not types:
            raise UserError(f"{path}: the dictionary is empty")
        dictionary = cls(types, counts)
        dictionary.ids = place
        return dictionary


def never_trained(path: Path | None) -> list[int]:
    """Return ``Dictionary.never_trained`` of a file; without one, what every dictionary has: ``<s>`` and ``<pad>``."""
    return [BOS, PAD] if path is None else Dictionary.read(path).never_trained()


def check_dictionary(path: str | Path, dictionary: Dictionary, vocab: int) -> None:
    """Raise ``UserError`` where a dictionary is not of the model that has ``vocab`` types."""
    if len(dictionary) != vocab:
        raise UserError(
            f"{path}: {len(dictionary)} types, the model has {vocab}",
            "give model.dictionary the dict.txt that the checkpoint was trained with",
        )
