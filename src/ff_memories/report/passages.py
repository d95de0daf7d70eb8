"""Turn prefixes of the corpus from ids into text, with invisible characters escaped."""

from dataclasses import dataclass
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.text import escape_invisible
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import Types, read_types

LONGEST = 40


@dataclass(frozen=True)
class Passage:
    """The end of a prefix: the text before its marked last token, the last token, and whether the start is cut off."""

    before: str
    marked: str
    cut: bool = False

    @property
    def plain(self) -> str:
        return " ".join(filter(None, ["…" if self.cut else "", self.before, self.marked]))


@dataclass(frozen=True)
class Texts:
    """The corpus and its dictionary, the source of passages."""

    corpus: store.Corpus
    dictionary: Types

    @classmethod
    def read(cls, sentences: str | Path, corpus: str | Path, dictionary: str | Path) -> "Texts":
        """Read both. Raises ``UserError`` if they belong to different runs."""
        texts = cls(store.read(corpus), read_types(dictionary))
        listed = tables.read(sentences).height
        if listed != len(texts.corpus):
            hint = "run the workflow again"
            raise UserError(f"{corpus} has {len(texts.corpus)} sentences, but {sentences} lists {listed}", hint)
        if len(texts.corpus.tokens) and texts.corpus.tokens.max() >= len(texts.dictionary):
            hint = "use the dictionary of this run's model"
            raise UserError(f"{dictionary} lists fewer token types than {corpus} uses", hint)
        return texts

    def word(self, token: int) -> str:
        """Return a token's text with invisible characters escaped."""
        return escape_invisible(self.dictionary[token])

    def passage(self, sentence: int, tokens: int, marked: bool = True) -> Passage:
        """Return the last ``LONGEST`` of a sentence's first ``tokens`` tokens, with the final one marked."""
        words = [self.word(token) for token in self.corpus.sentence(sentence)[:tokens]]
        last = words.pop() if marked and words else ""
        return Passage(" ".join(words[-LONGEST:]), last, len(words) > LONGEST)
