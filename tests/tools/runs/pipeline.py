"""Small runs for the tests: a config over made-up text and a random fairseq checkpoint, and its steps in order."""

import copy
import json
from itertools import chain
from pathlib import Path

import yaml
from factories import write_checkpoint, write_dictionary, write_text

from ff_memories import config as configs
from ff_memories import declaration, tables
from ff_memories.cli import main
from ff_memories.inputs.model_folder import files_of

SMALL = yaml.safe_load(
    """
run: small
seed: 3
fidelity: paper
corpus:
  source: null
  train: {files: [train.txt], max_sentences: null}
  validation: {files: [validation.txt]}
  sha256: null
  segmenter: rule
  tokenizer: auto
  headings: keep
  too_long: refuse
model: {source: null, checkpoint: model.pt, dictionary: dict.txt}
execution: {device: cpu, shards: 2, batch_tokens: 256}
extraction: {precision: float32}
triggers: {top: 6, per_sentence: best, positions: auto, duplicates: keep}
mutations: {keys_per_layer: 5, top: 4, random: any, single_token: skip, mean: of_ratios}
patterns: {keys_per_layer: 3, top: 5}
values: {target: auto, projection: auto, projection_seed: 1}
composition: {examples: 40, sample: per_sentence, positions: auto, layer_prediction: auto, memories: active,
              stop_words: sklearn}
baselines: {models: 2}
figures: {figure4: {}}
"""
)

GALLERY = ("shading", "levels", "promoted", "demoted", "histogram", "samples", "similar")  # its tables


def config(**changes):
    """Return the small run's config with keys changed: ``config(triggers__top=3)``."""
    out = copy.deepcopy(SMALL)
    for path, value in changes.items():
        *sections, key = path.split("__")
        place = out
        for section in sections:
            place = place[section]
        place[key] = value
    return out


def write_inputs(folder: Path, types, seed=1, train=160, validation=60, style="legacy", **options):
    """Write dict.txt, model.pt, train.txt (with repeated sentences) and validation.txt; return the fairseq model."""
    write_dictionary(folder / "dict.txt", types)
    model, _ = write_checkpoint(folder / "model.pt", types, seed, style, **options)
    write_text(folder / "train.txt", types, train, seed)
    lines = (folder / "train.txt").read_text(encoding="utf-8").splitlines()
    (folder / "train.txt").write_text("\n".join(lines + lines[:15]) + "\n", encoding="utf-8")
    write_text(folder / "validation.txt", types, validation, seed + 1)
    return model


def line(arguments):
    """Return the words of a command; a step's name alone stands for `step NAME`."""
    words = [str(a) for a in arguments]
    return ["step", *words] if words[0] in declaration.names() else words


def step(*arguments):
    """Run one sub-command in this process; fail the test where it fails."""
    try:
        main(line(arguments))
    except SystemExit as end:
        assert end.code == 0, f"{arguments[0]} ended with {end.code}"


def run_steps(folder: Path, settings: dict, threads: int = 1, out: str = "out", device: str = "cpu") -> Path:
    """Run every step from model to composition, without Snakemake; return the folder of tables.

    The model is model.pt with dict.txt, or the folder that the config names.
    """
    path, out = folder / "config.yaml", folder / out
    path.write_text(yaml.safe_dump(settings))
    f, t = lambda name: out / name, lambda name: out / f"{name}.parquet"
    c = lambda name: out / "counts" / f"{name}.parquet"
    execution = ["--device", device, "--threads", threads, "--batch-tokens", settings["execution"]["batch_tokens"]]
    model = ["--weights", f("model.safetensors"), "--description", f("model.json")]
    corpus = ["--corpus", f("corpus.safetensors")]
    config_, own = ["--config", path], settings["model"].get("folder")
    types = ["--dictionary", f("types.json") if own else folder / "dict.txt"]
    if own:
        step("transformer-model", *config_, "--files", *(folder / own / n for n in files_of(folder / own)), *model,
             "--info", f("info.json"), "--types", f("types.json"))  # fmt: skip
    else:
        step("model", *config_, "--checkpoint", folder / "model.pt", *types, *model, "--info", f("info.json"))
    step("corpus", *config_, "--train", folder / "train.txt", "--validation", folder / "validation.txt",
         *types, "--info", f("info.json"), "--sentences", t("sentences"), *corpus,
         "--counts", c("corpus"))  # fmt: skip
    n = settings["execution"]["shards"]
    shards = [f(f"shards/{i}-of-{n}/lists.safetensors") for i in range(1, n + 1)]
    for shard in shards:
        step("trigger-shard", *config_, *model, *execution, *corpus, "--shard", shard.parent.name, "--lists", shard)
    step("triggers", *config_, *model, *execution, *corpus, "--shards", *shards, "--triggers", t("triggers"),
         "--firing", t("firing"), "--counts", c("triggers"))  # fmt: skip
    triggers = ["--triggers", t("triggers")]
    step("mutations", *config_, *model, *execution, *corpus, *triggers, "--mutations", t("mutations"),
         "--counts", c("mutations"))  # fmt: skip
    step("values", *config_, *model, *execution, *corpus, *triggers, *types, "--values", t("values"))
    given = settings["composition"].get("sample_file")
    sample = ["--sample", folder / given, "--sentences", t("sentences")] if given else []
    step("composition", *config_, *model, *execution, *corpus, *sample, *types, "--values", t("values"),
         "--examples", t("examples"), "--composition", t("composition"), "--refinement", t("refinement"),
         "--counts", c("composition"))  # fmt: skip
    step("interventions", *config_, *model, *execution, *corpus, "--causal", t("causal"), "--causal-counts",
         c("causal"), "--removals", t("removals"), "--removal-counts", c("removals"))  # fmt: skip
    step("gallery-tables", *config_, *model, *execution, *corpus, *triggers, "--values", t("values"), "--causal",
         t("causal"), *(part for name in GALLERY for part in (f"--{name}", t(name))))  # fmt: skip
    return out


BASELINE = ("values", "mutations", "examples", "composition", "refinement", "causal", "removals", "annotations",
            "pattern_labels", "distance_labels")  # fmt: skip


def baseline(folder: Path, out: Path, model: str, where: Path, device: str = "cpu", shards: int = 1) -> Path:
    """Measure a model of the baselines with the steps of the run in ``out``; return the folder of its tables.

    Args:
        shards: of every step that has some.
    """
    whole = configs.load(folder / "config.yaml")
    sizes = ["--config", json.dumps(whole.baselines.of_a_model(whole.resolved()))]
    sample, described = where / "sample.safetensors", where / model / "model.json"
    types = ["--dictionary", next(path for path in (out / "types.json", folder / "dict.txt") if path.is_file())]
    step("sample", *sizes, "--corpus", out / "corpus.safetensors", "--sample", sample)
    step("models", *sizes, "--own", out / "model.json", "--description", described)
    execution = ["--device", device, "--threads", 1, "--batch-tokens", whole.execution.batch_tokens]
    drawn = [*sizes, "--weights", out / "model.safetensors", "--description", described, *execution]
    on, every = ["--corpus", sample], [f"{number + 1}-of-{shards}" for number in range(shards)]
    table, count = lambda name: where / f"{name}.parquet", lambda name: where / "counts" / f"{name}.parquet"

    def cut(name, *given, **made):
        """Run a step in shards, and join them."""
        parts = [where / "shards" / shard for shard in every]
        for shard, part in zip(every, parts, strict=True):
            outs = ((f"--{option.replace('_', '-')}", part / path.relative_to(where)) for option, path in made.items())
            step(name, *given, *chain.from_iterable(outs), "--shard", shard)
        for path in made.values():
            tables.join([part / path.relative_to(where) for part in parts], path)

    lists = [where / "shards" / shard / "lists.safetensors" for shard in every]
    for shard, path in zip(every, lists, strict=True):
        step("trigger-shard", *drawn, *on, "--shard", shard, "--lists", path)
    step("triggers", *drawn, *on, "--shards", *(lists if shards > 1 else []), "--triggers", table("triggers"),
         "--firing", table("firing"), "--counts", count("triggers"))  # fmt: skip
    found, named = ["--triggers", table("triggers")], ["--model", f"models/{model}/"]
    cut("mutations", *drawn, *on, *found, mutations=table("mutations"), counts=count("mutations"))
    cut("values", *drawn, *on, *found, *types, *named, values=table("values"))
    seen = {name: table(name) for name in ("examples", "composition", "refinement")}
    cut("composition", *drawn, *on, *types, "--values", table("values"), **seen, counts=count("composition"))
    cut("interventions", *drawn, "--corpus", out / "corpus.safetensors", causal=table("causal"),
        removals=table("removals"), causal_counts=count("causal"), removal_counts=count("removals"))  # fmt: skip
    own = [*sizes, "--weights", out / "model.safetensors", "--description", out / "model.json"]
    step("proxy", *own, *on, *found, *types, *named, "--examples", table("examples"), "--refinement",
         table("refinement"), "--annotations", table("annotations"), "--labels", table("pattern_labels"),
         "--distances", table("distance_labels"), "--scores", table("annotation_scores"),
         "--counts", count("proxy"))  # fmt: skip
    step("perplexity", *sizes, "--weights", out / "model.safetensors", "--descriptions", described, *on, *types,
         *execution, "--perplexities", where / "perplexity.json")  # fmt: skip
    return where
