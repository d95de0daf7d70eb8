"""The config's section on the text."""

from typing import Literal, Self

from pydantic import Field, model_validator

from ff_memories.config.section import FilePath, Section


class TextFiles(Section):
    """The text files of one split, in reading order."""

    files: list[FilePath] = Field(description="text files (UTF-8, one paragraph or heading per line)")
    max_sentences: int | None = Field(None, ge=1, description="use only this many sentences, from the start; null: all")


class CorpusSection(Section):
    """The text: where it comes from and how to split it into sentences and tokens."""

    source: str | None = Field(
        description="a named source, such as `docstrings` or `wikitext-103`; null: use `train.files` and "
        "`validation.files`"
    )
    train: TextFiles = Field(description="training text, searched for triggers (section 3.1)")
    validation: TextFiles = Field(description="validation text, on which the layers are observed (section 5)")
    sha256: str | None = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="expected SHA-256 of all text files, concatenated in order; null: no check",
    )
    segmenter: str = Field(
        "rule",
        pattern=r"^(rule|line|spacy:[\w.-]+)$",
        description="how to split paragraphs into sentences: rule (after `. ! ?`) | `spacy:<pipeline>` | line (one "
        "sentence per line)",
    )
    tokenizer: Literal["auto", "native", "moses", "model"] = Field(
        "auto",
        description="how to split sentences into tokens: native (at spaces; paper) | moses (released) | model (the "
        "tokenizer of a `transformers` model)",
    )
    headings: Literal["keep", "drop"] = Field(
        "keep", description="headings (lines such as ` = Title = ` in WikiText): keep as sentences | drop"
    )
    too_long: Literal["refuse", "split"] = Field(
        "refuse",
        description="sentences with more tokens than the model has positions: refuse (stop with an error) | split",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for split in ("train", "validation"):
            if (self.source is None) != bool(getattr(self, split).files):
                raise ValueError(f"give either source or {split}.files, and not both")
        return self
