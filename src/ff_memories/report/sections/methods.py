"""Write a run's methods section from its config and its model info."""

from typing import Any

from ff_memories.claims.judging.training import MATTERS, OF_FACTOR
from ff_memories.claims.numbers import measured
from ff_memories.config import Settings
from ff_memories.report.wording import looked_at

SOURCES = {
    "docstrings": "prose from the docstrings of pinned Python packages",
    "wikitext-103": "WikiText-103",
    None: "the run's own text files",
}
SEGMENTERS = {
    "rule": "by rule, at sentence-ending punctuation",
    "line": "by line",
}
TOKENIZERS = {
    "model": "by the model's own tokenizer",
    "native": "at whitespace",
    "moses": "by the Moses tokenizer, applied to the raw text",
}
POSITIONS = {
    "inner": "all prefixes that stop before the last token of their sentence",
    "released": "all prefixes that stop before the last token of their sentence, including the empty one",
    "full": "all prefixes, including the whole sentence",
}
PROJECTIONS = {
    "adaptive": "the model's own output softmax, with the checkpoint's weights and without dropout",
    "flat": "a single softmax over the logits of all token types",
    "head": "the softmax over the most frequent token types only",
    "raw": "a softmax over the products of the value and the output matrix, without final norm, bias or cap",
    "scaled": "a softmax over the products of the value and the output matrix times the final norm's scale",
    "random": "an adaptive softmax with random inner projections, as in the released code",
}
ARITHMETIC = {
    "float32": "All arithmetic was in float32.",
    "tf32": "Matrix-product inputs were rounded to tf32 (11 significant bits); sums were in float32.",
    "bfloat16": "Matrix-product inputs were rounded to bfloat16 (8 significant bits); sums were in float32.",
}
PREFIXES = {
    "1..N": "from one token to the whole sentence",
    "0..N": "from the empty prefix to the whole sentence",
    "1..N-1": "from one token to all but the last",
}


SIGNS = (
    "Coefficients below zero count as a memory of their own, marked −: key 12− has the triggers with the lowest "
    "negative coefficients of key 12, shown with their signs changed."
)
JUDGED = (
    "A claim that states a direction is judged by one number with its interval: it holds if the interval lies on the "
    "claim's side of a limit that follows from the paper's words, fails if it lies on the other side, and is undecided "
    "if it lies on both. A claim whose direction is clear but whose size is missed is called smaller than stated."
)
TESTS = "P-values are one-sided, with Holm's correction over all judged claims that have a test."


def methods(
    config: Settings, info: dict[str, Any], tested: bool = False, untrained: int = 0, shuffled: int = 0
) -> list[str]:
    """Return the paragraphs of the methods section: model, text, triggers, keys, values and composition.

    Args:
        config: the run's settings.
        info: the run's model info.
        tested: whether claims have p-values.
        untrained: number of untrained models that were measured.
        shuffled: number of models with the run's weights, shuffled, that were measured.
    """
    last = f"{_composition(config)} {TESTS}" if tested else _composition(config)
    start = f"the token {info['start_token']}" if "start_token" in info else "one end-of-sentence token"
    both = info.get("signs", 1) > 1
    return [
        _model(info),
        _corpus(config, start),
        _triggers(config, info, both),
        _keys(config, start),
        _values(config, both),
        f"{last}{_read(info)}",
        f"{JUDGED}{_untrained(info, untrained, shuffled) if untrained else ''}",
    ]


def _untrained(info: dict[str, Any], models: int, shuffled: int) -> str:
    """Return what untrained models are, and how numbers are compared with theirs."""
    how = (
        "initialised as the library initialises the model"
        if info.get("scope") == "model"
        else "with normal matrices of variance one over the width of what they read, biases of 0 and scales of 1"
    )
    scale = (
        " A control for the scale of the weights has the run's own matrices, the entries of each in a random order."
        if shuffled
        else ""
    )
    return (
        f" Every number is compared with those of {models} untrained models of the same shape, {how}, drawn from the "
        "run's seed. They and, again, the run's model are measured in the same way on one random sample of the text. "
        "The interval beside untrained models is a prediction interval for one more of them (Student's t, "
        f"{models - 1} degrees of freedom). The test joins it with the sampling error of the run's number; Holm's "
        "correction is over all claims. A number is the same untrained if any difference is smaller than what "
        f"matters: {measured(MATTERS['points'], 'points')} of a share, {MATTERS['correlation']} of a correlation or "
        f"{measured(OF_FACTOR, 'share')} of a factor, and less for rates near zero.{scale}"
    )


def _model(info: dict[str, Any]) -> str:
    extra = "".join(
        f", {info[key]:,} {word}"
        for key, word in (("heads", "attention heads"), ("parameters", "parameters"))
        if key in info
    )
    width = f" of width {info['model']:,}" if "model" in info else ""
    keys = info.get("neurons", info["keys"])
    size = (
        f"The language model has {info['layers']} layers{width}, {keys:,} keys and values per layer"
        f"{extra} and a vocabulary of {info['vocab']:,} token types. "
    )
    if info.get("scope") == "model":
        return size + _feed_forward(info)
    return (
        f"{size}A key is a row of a feed-forward layer's first "
        "matrix; a value is a row of its second. A memory coefficient is the activation function applied to the dot "
        "product of the key and the layer's normalised input, plus the bias."
    )


def _feed_forward(info: dict[str, Any]) -> str:
    """Return what keys, values and coefficients are in a model of `transformers`."""
    function = info.get("activation", "activation")
    norm = ", times the scale of the norm behind it" if info.get("norm_after") else ""
    value = f"A value is a column of the down projection{norm}."
    if info.get("gated"):
        return (
            "A key is a pair of rows, of a feed-forward layer's gate and of its up projection. A memory coefficient is "
            f"the {function} function of the gate row's product with the layer's input, times the up row's. {value}"
        )
    return (
        "A key is a row of a feed-forward layer's up projection. A memory coefficient is the "
        f"{function} function of its product with the layer's input. {value}"
    )


def _read(info: dict[str, Any]) -> str:
    """Return how a model of `transformers` is read, and how many memories count."""
    if info.get("scope") != "model":
        return ""
    said = " Residuals and outputs were read through the final norm and the output layer."
    if info.get("wiring") == "parallel":
        said += " The feed-forward layer stands beside attention: the residual is the sum that its output is added to, "
        said += "which it did not read."
    return said + (
        " The effective number of memories is (sum of e)²/(sum of e²), where e is the square of a coefficient times "
        "its value's length."
    )


def _corpus(config: Settings, start: str) -> str:
    corpus = config.corpus
    how = SEGMENTERS.get(corpus.segmenter) or f"by spaCy's {corpus.segmenter.removeprefix('spacy:')}"
    limit = corpus.train.max_sentences
    first = "" if limit is None else f" We used the first {limit:,} sentences of the training text."
    return (
        f"The text is {SOURCES.get(corpus.source, corpus.source)}, split into training and validation text. "
        f"Sentences were split {how}, and tokens {TOKENIZERS.get(corpus.tokenizer, corpus.tokenizer)}. Headings were "
        f"{'kept' if corpus.headings == 'keep' else 'dropped'}.{first} The model read each sentence separately, after "
        f"{start}."
    )


def _triggers(config: Settings, info: dict[str, Any], both: bool) -> str:
    triggers = config.triggers
    each = "at most one prefix" if triggers.per_sentence == "best" else "any number of prefixes"
    same = "" if triggers.duplicates == "keep" else ". Of prefixes with the same text, only the first counts"
    arithmetic = ARITHMETIC[config.precision]
    signs = f" {SIGNS}" if both else ""
    asked = config.looked_at
    some = looked_at(asked, info.get("neurons", info["keys"]), config.seed) if asked else ""
    other = (
        f" We looked at {some}: triggers, mutations, patterns and the comparison of values with triggers are of these. "
        "What memories and layers predict together counts all memories."
    )
    return (
        f"A key's triggers are the {triggers.top} training-text prefixes with its highest positive "
        f"coefficients, taken from {POSITIONS.get(triggers.positions, triggers.positions)}, with {each} per "
        f"sentence{same}. Ties go to the earlier sentence, then to the shorter prefix. {arithmetic}{signs}"
        f"{other if some else ''}"
    )


def _keys(config: Settings, start: str) -> str:
    mutations, patterns = config.mutations, config.patterns
    unit = mutations.unit
    drawn = f"all {unit}s" if mutations.random == "any" else f"the {unit}s in between"
    short = "left out" if mutations.single_token == "skip" else f"read at {start.replace('one ', 'the ')}"
    mean = (
        "the mean of its triggers' changes"
        if mutations.mean == "of_ratios"
        else "the change of the sum over its triggers"
    )
    return (
        f"For {mutations.keys_per_layer} random keys per layer, we removed from each of the top {mutations.top} "
        f"triggers the first {unit}, the last, or a random one of {drawn}, and recomputed the coefficient. Triggers of "
        f"a single {unit} were {short}. A key's change is {mean}. Patterns come from the top {patterns.top} triggers "
        f"of {patterns.keys_per_layer} random keys per layer."
    )


def _values(config: Settings, both: bool) -> str:
    values = config.values
    target = "the token that follows" if values.target == "next" else "the last token of"
    return (
        f"A value's prediction is its most probable token under "
        f"{PROJECTIONS.get(values.projection, values.projection)}. It agrees with a trigger if it is {target} that "
        "trigger. A token's rank is the number of more probable token types."
        + (" A memory of negative coefficients has the value −v." if both else "")
    )


def _composition(config: Settings) -> str:
    composition = config.composition
    how = (
        "one from each sampled sentence of the validation text"
        if composition.sample == "per_sentence"
        else "sampled uniformly from the validation text"
    )
    drawn = (
        f"up to {composition.examples:,} prefixes, {how}, {PREFIXES.get(composition.positions, composition.positions)}"
    )
    given = "validation-text prefixes from the file that the config names"
    layer = "the feed-forward's output" if composition.layer_prediction == "ffn" else "the layer's output"
    memories = "active memories" if composition.memories == "active" else "memories, active or not,"
    words = {"sklearn": "the words on scikit-learn's list", "spacy": "the words on spaCy's list"}.get(
        composition.stop_words, f"the {composition.stop_words.removeprefix('top')} most frequent words"
    )
    return (
        f"Sections 5.1 and 5.2 use {given if composition.sample_file else drawn}. We compared the predictions of a "
        f"layer's {memories} with that of {layer}. Stop words are {words}. All random draws follow from "
        f"seed {config.seed}. Intervals are 95 % percentile bootstrap intervals over keys, values or examples. For "
        "shares of 0 or 100 %, they are Wilson score intervals. If a claim is about the layer "
        "with the highest or lowest share, the interval allows for that selection."
    )
