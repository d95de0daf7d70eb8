"""Say what a run read, and whether two runs read the same."""

from dataclasses import dataclass
from pathlib import Path

from ff_memories.config import Config

SAME, RELATED, OTHER = "same", "related", "other"


@dataclass(frozen=True)
class Text:
    """What a run read, as far as it is known.

    Attributes:
        source: the text's name in the registry of sources.
        form: ``raw`` for models of `transformers`, ``tokenised`` for fairseq's.
        sha256: of all files together.
        files: the files' paths, if the config names files instead of a source.
        sentences: a digest of the table ``sentences``.
    """

    source: str | None = None
    form: str = ""
    sha256: str | None = None
    files: tuple[str, ...] = ()
    sentences: str | None = None

    @classmethod
    def of(cls, config: Config | None, root: Path, sentences: str | None) -> "Text":
        """Return a run's text from its config (``None`` if unknown), its project's folder and its sentences."""
        if config is None:
            return cls(sentences=sentences)
        corpus = config.corpus
        files = tuple(str(root / path) for path in (*corpus.train.files, *corpus.validation.files))
        form = "raw" if config.model.has_tokenizer else "tokenised"
        return cls(corpus.source, form, corpus.sha256, files, sentences)

    @property
    def known(self) -> bool:
        return bool(self.source or self.sha256 or self.files)


def relation(one: Text, other: Text) -> tuple[str, str]:
    """Return how two texts relate, ``same``, ``related`` or ``other``, and what a reader must know about it."""
    if one.sentences and one.sentences == other.sentences:
        return SAME, ""
    if one.sha256 and one.sha256 == other.sha256:
        return SAME, ""
    if one.source and one.source == other.source:
        if one.form != other.form:
            return RELATED, f"the same source, {one.source}, in another form: {other.form} instead of {one.form}"
        if one.sha256 and other.sha256:
            return RELATED, f"another state of the source {one.source}: its digest differs"
        return RELATED, f"the same source, {one.source}; its digest is not recorded for both runs"
    if one.files and one.files == other.files and not (one.sha256 and other.sha256):
        return RELATED, "the same files by name; their digest is not recorded for both runs"
    if not (one.known and other.known):
        return OTHER, "its text is not recorded"
    return OTHER, "another text"
