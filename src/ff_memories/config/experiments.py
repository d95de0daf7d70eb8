"""The config's sections on the text and on the paper's experiments."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from ff_memories.base.parameters import LARGEST
from ff_memories.config.section import OF_TRANSFORMERS, FilePath, MemorySelection, Section


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


class Triggers(Section):
    """E1, section 3.1: the t prefixes with the highest memory coefficients, for every key."""

    top: int = Field(50, ge=1, le=65535, description="number of triggers per key (t)")
    per_sentence: Literal["best", "all"] = Field(
        "best", description="prefixes that a key keeps per sentence: best (one) | all (any number)"
    )
    positions: Literal["auto", "inner", "released", "full"] = Field(
        "auto",
        description="prefix lengths in a sentence of N tokens: inner (1..N-1; paper) | released (0..N-1) | full (1..N)",
    )
    duplicates: Literal["keep", "drop"] = Field(
        "keep", description="a key's triggers with the same text: keep | drop (all but the best)"
    )
    signs: Literal["auto", "positive", "both"] = Field(
        "auto",
        description="coefficients whose size counts: positive (paper) | both: negative ones are triggers of the "
        "memory's negative value | auto: both for gated layers (SwiGLU), else positive",
        json_schema_extra=OF_TRANSFORMERS,
    )
    keys: MemorySelection = Field(
        None,
        description="memories to look at: null (all; paper) | a number (so many random ones of each layer) | a list by "
        "layer, such as `{3: [17, 255]}`",
    )


class Mutations(Section):
    """E3, section 3.2: remove the first, the last or a random token of each trigger."""

    keys_per_layer: int = Field(100, ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(50, ge=1, le=65_535, description="number of triggers to mutate per key")
    random: Literal["any", "inner", "earlier"] = Field(
        "inner",
        description="what the random removal takes: inner (a token that is neither first nor last) | any (any token; "
        "paper) | earlier (an inner token and all after it: a control, since a trigger is its sentence's maximum)",
    )
    single_token: Literal["skip", "bos"] = Field(
        "skip", description="triggers of one token: skip | bos (use the coefficient at `</s>`)"
    )
    mean: Literal["of_ratios", "of_sums"] = Field(
        "of_ratios", description="of_ratios: mean of the relative changes | of_sums: relative change of the sums"
    )
    unit: Literal["token", "word"] = Field(
        "token",
        description="what to remove: token (paper) | word (all tokens of a word; `random` and `single_token` then "
        "count words)",
        json_schema_extra=OF_TRANSFORMERS,
    )


class Patterns(Section):
    """E2, section 3.1: the sample of keys to annotate."""

    keys_per_layer: int = Field(10, ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(25, ge=3, le=255, description="number of triggers to show per key")


class Values(Section):
    """E4-E7, section 4: compare the predictions of values with their keys' triggers."""

    target: Literal["auto", "next", "last"] = Field(
        "auto",
        description="target token: next (the one after the trigger; paper) | last (the trigger's last one; released)",
    )
    projection: Literal["auto", "adaptive", "flat", "head", "random", "raw", "scaled"] = Field(
        "auto",
        description="how values become distributions: adaptive (the model's own softmax; paper) | flat (one softmax "
        "over the vocabulary) | head (only the head's words) | random (random projections, as in the released script); "
        "for a `transformers` model: raw (its output matrix) | scaled (times the scale of its final norm)",
    )
    projection_seed: int = Field(1, ge=0, le=LARGEST, description="seed of the random projections")
    length: Literal["own", "mean"] = Field(
        "own",
        description="length of a value that is read: own (paper) | mean (that of all the model's values: a control, "
        "since long values are more confident)",
    )
    types: Literal["all", "trained"] = Field(
        "all",
        description="token types that a value can predict: all (paper) | trained (without types that are never a "
        "training target, such as `<s>`); the tables have both",
    )


class Composition(Section):
    """E8-E14, section 5: how memories and layers compose their predictions on validation prefixes."""

    examples: int = Field(
        4000, ge=1, le=10**9, description="number of random prefixes; all sentences if there are fewer"
    )
    sample: Literal["per_sentence", "uniform"] = Field(
        "per_sentence",
        description="how to sample: per_sentence (one prefix from each sampled sentence) | uniform (over all prefixes)",
    )
    sample_file: FilePath | None = Field(
        None,
        description="a file of JSON lines with `text` (a validation sentence) and `random_pos` (a prefix length): use "
        "these prefixes in this order; docs/exports.md says how to write one; null: sample at random",
    )
    positions: Literal["auto", "1..N", "0..N", "1..N-1"] = Field(
        "auto", description="prefix lengths in a sentence of N tokens: 1..N (paper) | 0..N (released) | 1..N-1"
    )
    layer_prediction: Literal["auto", "ffn", "output"] = Field(
        "auto", description="the prediction that memories agree with: ffn (top(y); paper) | output (top(o); released)"
    )
    memories: Literal["active", "all", "share:0.9"] = Field(
        "active",
        description="memories that can agree: active (positive coefficient; paper) | all | share:0.9 (the fewest that "
        "add 90 % of the layer's energy, the sum of squared coefficients times value lengths)",
    )
    residual: Literal["added", "read"] = Field(
        "added",
        description="the residual r: added (what the feed-forward output is added to; paper) | read (what the "
        "feed-forward layer's block reads; it differs in parallel blocks alone)",
        json_schema_extra=OF_TRANSFORMERS,
    )
    stop_words: Literal["sklearn", "spacy", "top50", "top100"] = Field(
        "sklearn",
        description="stop words: sklearn, spacy (the package's list) | top50, top100 (the most frequent types)",
    )


class Causal(Section):
    """Beyond the paper: what changing a memory's coefficient does to the tokens that its value promotes."""

    keys_per_layer: int = Field(
        5, ge=0, le=65_536, description="random memories of each layer, of both signs where both count; 0: none"
    )
    prefixes: int = Field(
        4,
        ge=1,
        le=1000,
        description="validation prefixes for each memory: half with its largest coefficients, half where it is active",
    )
    interventions: list[Literal["mean", "zero", "resample", "double"]] = Field(
        ["mean", "zero", "resample", "double"],
        min_length=1,
        description="what to set the coefficient to: mean (its mean over other validation prefixes) | zero | resample "
        "(its value at another prefix) | double; controls take the first one, which cannot be resample",
    )

    @field_validator("interventions")
    @classmethod
    def _once(cls, given: list[str]) -> list[str]:
        if len(set(given)) < len(given):
            raise ValueError("an intervention is listed twice")
        if given and given[0] == "resample":
            raise ValueError("controls take the first intervention, which cannot be resample")
        return given


class Removals(Section):
    """Beyond the paper: what removing a layer's strongest memories together does to its prediction."""

    prefixes: int = Field(
        40, ge=0, le=512, description="validation prefixes at whose ends memories of each layer are removed; 0: none"
    )
    memories: list[int] = Field(
        [1, 2, 5, 10, 20],
        min_length=1,
        description="how many memories to remove together, the strongest ones, ascending; numbers above a layer's "
        "memories are left out and counted",
    )

    @field_validator("memories")
    @classmethod
    def _ascending(cls, given: list[int]) -> list[int]:
        if given != sorted(set(given)) or not 1 <= given[0] <= given[-1] <= 65_535:
            raise ValueError("expected different numbers from 1 to 65535, ascending")
        return given
