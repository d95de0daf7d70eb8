"""How a run was carried out, as a methods section, written from its config and its model info."""

from typing import Any

from ff_memories.config import Settings

SOURCES = {
    "docstrings": "the prose of documentation strings of pinned Python packages",
    "wikitext-103": "WikiText-103",
    None: "the run's own text files",
}
SEGMENTERS = {
    "rule": "by rule, at sentence-ending marks",
    "line": "one on each line",
}
TOKENIZERS = {"native": "at blanks alone", "moses": "by the Moses tokenizer over the text as it stands"}
POSITIONS = {
    "inner": "every prefix that leaves at least one token of its sentence over",
    "released": "every prefix that leaves at least one token of its sentence over, the empty one included",
    "full": "every prefix, the whole sentence included",
}
PROJECTIONS = {
    "adaptive": "the model's own output softmax, with the checkpoint's weights and without dropout",
    "flat": "one softmax over the logits of all token types",
    "head": "the softmax over the most frequent token types alone",
    "random": "an adaptive softmax whose inner projections are drawn at random, as in the released code",
}
ARITHMETIC = {
    "float32": "The arithmetic was float32.",
    "tf32": "Factors of matrix products were rounded to tf32 (11 significant bits); sums were float32.",
    "bfloat16": "Factors of matrix products were rounded to bfloat16 (8 significant bits); sums were float32.",
}
PREFIXES = {
    "1..N": "of one token up to the whole sentence",
    "0..N": "of no token up to the whole sentence",
    "1..N-1": "of one token up to all but the last",
}


TESTS = "P-values are one-sided, corrected by Holm over the judged claims that have a test."


def methods(config: Settings, info: dict[str, Any], tested: bool = False) -> list[str]:
    """Return the paragraphs of the methods section: text, triggers, mutations, patterns, values, composition.

    ``tested``: whether claims have p-values.
    """
    last = f"{_composition(config)} {TESTS}" if tested else _composition(config)
    return [_model(info), _corpus(config), _triggers(config), _keys(config), _values(config), last]


def _model(info: dict[str, Any]) -> str:
    extra = "".join(
        f", {info[key]:,} {word}" for key, word in (("heads", "attention heads"), ("parameters", "parameters"))
        if key in info
    )  # fmt: skip
    width = f" of width {info['model']:,}" if "model" in info else ""
    return (
        f"The language model has {info['layers']} layers{width}, {info['keys']:,} keys and values in each"
        f"{extra} and a vocabulary of {info['vocab']:,} token types. A key is a row of a feed-forward layer's first "
        "matrix, a value a row of its second; a memory coefficient is what the activation function makes of the "
        "layer's normalised input times the key, bias included."
    )


def _corpus(config: Settings) -> str:
    corpus = config.corpus
    how = SEGMENTERS.get(corpus.segmenter) or f"by spaCy's {corpus.segmenter.removeprefix('spacy:')}"
    limit = corpus.train.max_sentences
    first = "" if limit is None else f" Of the training text, the first {limit:,} sentences were used."
    return (
        f"The text is {SOURCES.get(corpus.source, corpus.source)}, divided into training and validation text. "
        f"Sentences were found {how}, and tokens {TOKENIZERS.get(corpus.tokenizer, corpus.tokenizer)}; headings were "
        f"{'kept' if corpus.headings == 'keep' else 'dropped'}.{first} Each sentence was run by itself, after one "
        "end-of-sentence token."
    )


def _triggers(config: Settings) -> str:
    triggers = config.triggers
    each = "one prefix at most" if triggers.per_sentence == "best" else "any number of prefixes"
    same = "" if triggers.duplicates == "keep" else "; of prefixes with the same text only the first counted"
    arithmetic = ARITHMETIC[config.precision]
    return (
        f"A key's triggers are the {triggers.top} prefixes of the training text with its highest positive "
        f"coefficients, out of {POSITIONS.get(triggers.positions, triggers.positions)}, with {each} of a "
        f"sentence{same}. Ties went to the earlier sentence and the shorter prefix. {arithmetic}"
    )


def _keys(config: Settings) -> str:
    mutations, patterns = config.mutations, config.patterns
    drawn = "all of them" if mutations.random == "any" else "those between"
    short = "left out" if mutations.single_token == "skip" else "read at the end-of-sentence token"
    mean = (
        "the mean of the changes of single triggers"
        if mutations.mean == "of_ratios"
        else "the change of the sum over triggers"
    )
    return (
        f"For {mutations.keys_per_layer} random keys of each layer, the top {mutations.top} triggers lost their first "
        f"token, their last, or one drawn from {drawn}, and the coefficient was computed anew; triggers of a single "
        f"token were {short}. A key's change is {mean}. Patterns were sought in the top {patterns.top} triggers of "
        f"{patterns.keys_per_layer} random keys of each layer."
    )


def _values(config: Settings) -> str:
    values = config.values
    target = "the token that follows" if values.target == "next" else "the last token of"
    return (
        f"A value's prediction is the most probable token when the value itself is put through "
        f"{PROJECTIONS.get(values.projection, values.projection)}. It agrees with a trigger when it is {target} that "
        "trigger; a token's rank is the number of token types that are more probable."
    )


def _composition(config: Settings) -> str:
    composition = config.composition
    how = (
        "one of each drawn sentence of the validation text"
        if composition.sample == "per_sentence"
        else "drawn evenly from all of the validation text"
    )
    drawn = (
        f"up to {composition.examples:,} prefixes, {how}, {PREFIXES.get(composition.positions, composition.positions)}"
    )
    given = "prefixes of the validation text that were given, not drawn"
    layer = "the feed-forward's output" if composition.layer_prediction == "ffn" else "the layer's output"
    memories = "active memories" if composition.memories == "active" else "memories, active or not,"
    words = {"sklearn": "scikit-learn's list", "spacy": "spaCy's list"}.get(
        composition.stop_words, f"the {composition.stop_words.removeprefix('top')} most frequent words"
    )
    return (
        f"Sections 5.1 and 5.2 rest on {given if composition.sample_file else drawn}. The predictions of a layer's "
        f"{memories} were compared with that of {layer}; stop words are those of {words}. All random draws follow from "
        f"the seed {config.seed}. Intervals are 95 % percentile bootstrap intervals over keys, values or examples. For "
        "a claim's share of no cases, or of all, they are Wilson's score intervals. Where a claim is about the layer "
        "with the highest or lowest share, the interval allows for that selection."
    )
