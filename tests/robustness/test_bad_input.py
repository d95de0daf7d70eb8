"""Bad input ends in one clear sentence: what, where and how to mend it; nothing is left half-written."""

import copy
import re
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from factories import write_dictionary
from pipeline import SMALL, config, run_steps, step, write_inputs
from refusing import TYPES, model_step, run_corpus, says
from running import ROOT

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.config import Settings, load, parse
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model.files import checkpoint
from ff_memories.workflow.rules import refuse_bad_sample
from ff_memories.workflow.run import Run


def nothing_written(folder):
    return not (folder / "out").exists() or not list((folder / "out").rglob("*"))


# -- texts -------------------------------------------------------------------------------------------------------


def test_a_faulty_text_is_refused_before_anything_is_written(folder, capsys):
    (folder / "train.txt").write_bytes("gut .\nüber .\n".encode("latin1"))
    said = says(capsys, *run_corpus(folder))
    assert "train.txt, line 2: not UTF-8 at byte 0" in said and "iconv" in said
    (folder / "train.txt").unlink()
    said = says(capsys, *run_corpus(folder))
    assert "train.txt: no such text file" in said and "corpus.train.files" in said
    assert nothing_written(folder)


def test_a_changed_text_does_not_pass_for_the_pinned_one(folder, capsys):
    said = says(capsys, *run_corpus(folder, corpus__sha256="0" * 64))
    assert "corpus.sha256" in said and "made from" not in said
    demo = {"corpus__source": "docstrings", "corpus__train__files": [], "corpus__validation__files": []}
    said = says(capsys, *run_corpus(folder, corpus__sha256="0" * 64, **demo))
    assert "the text comes from networkx 3." in said


# -- dictionary and checkpoint -------------------------------------------------------------------------------------


def test_a_dictionary_of_another_model(folder, capsys):
    write_dictionary(folder / "dict.txt", TYPES[:-3])
    said = says(capsys, *model_step(folder))
    assert "has 45 token types, with the four special ones, but the checkpoint has 48" in said
    assert nothing_written(folder)


@pytest.mark.parametrize("line, says_", [("word 0.5", "expected `token count`"), ("the 4", "'the' appears a second")])
def test_a_faulty_dictionary_is_named_by_its_line(tmp_path, line, says_):
    (tmp_path / "dict.txt").write_text(f"the 9\nof 8\n{line}\n")
    with pytest.raises(UserError, match=f"line 3: {says_}"):
        Dictionary.read(tmp_path / "dict.txt")


def test_a_dictionary_reads_as_fairseqs_own(tmp_path):
    from fairseq.data import Dictionary as Theirs

    odd = ["a\u00a0b", "\u2028", "é", "#fairseq", "3", "&apos;"]
    write_dictionary(tmp_path / "dict.txt", [*TYPES, *odd])
    ours, theirs = Dictionary.read(tmp_path / "dict.txt"), Theirs.load(str(tmp_path / "dict.txt"))
    assert len(ours) == len(theirs)
    for word in [*TYPES, *odd, "<unk>", "</s>", "unheard", "<s>"]:
        assert ours.encode([word]) == [theirs.index(word)], word


@pytest.mark.parametrize(
    "counts, never",
    [("-1 -2 -3", []), ("0 -1 -2", []), ("0 0 0", []), ("+9 1_000 0", [6]), ("9 0 -1", [])],
    ids=["below 0", "scores", "all 0", "one 0", "0 beside below 0"],
)
def test_counts_of_any_sign_are_read_as_by_fairseq_and_only_counts_tell_what_was_never_trained(tmp_path, counts, never):
    from fairseq.data import Dictionary as Theirs

    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} {count}\n" for word, count in zip("abc", counts.split(), strict=True)))
    ours, theirs = Dictionary.read(path), Theirs.load(str(path))
    assert ours.types[4:] == theirs.symbols[4:] == ["a", "b", "c"] and ours.ids["c"] == theirs.indices["c"]
    assert ours.never_trained() == [0, 1, *never]


def rewrite(folder, change):
    """Change what a checkpoint holds."""
    content = checkpoint.load_pickle(folder / "model.pt")
    change(content)
    torch.save(content, folder / "model.pt")


@pytest.mark.parametrize("size", [0, 5000])
def test_a_truncated_checkpoint(folder, capsys, size):
    (folder / "model.pt").write_bytes((folder / "model.pt").read_bytes()[:size])
    assert "model.pt: truncated or not a checkpoint" in says(capsys, *model_step(folder))
    assert nothing_written(folder)


BLOCK = torch.ones(10_000)
ARCHITECTURES = {
    "its architecture is fconv_lm": lambda c: setattr(c["args"], "arch", "fconv_lm"),
    "its activation is GELU": lambda c: setattr(c["args"], "activation_fn", "gelu"),
    "post-norm": lambda c: setattr(c["args"], "decoder_normalize_before", False),
    "lacks decoder.layers.1.fc2.bias": lambda c: c["model"].pop("decoder.layers.1.fc2.bias"),
    "the architecture says": lambda c: c["model"].update({"decoder.layers.1.fc2.bias": torch.zeros(3)}),
    "its options say 9": lambda c: setattr(c["args"], "decoder_layers", 9),
    "layers.0.fc1.weight is": lambda c: c["model"].update({"decoder.layers.0.fc1.weight": torch.zeros(24, 16).long()}),
    "5 attention heads do not divide 16": lambda c: setattr(c["args"], "decoder_attention_heads", 5),
    "weights of an architecture that is not": lambda c: c["model"].update({"decoder.adapter.weight": torch.ones(1)}),
    "refused, its tensors are": lambda c: c["model"].update({f"decoder.x{n}": BLOCK for n in range(9)}),
}


@pytest.mark.parametrize("said", ARCHITECTURES)
def test_another_architecture_is_refused_by_name(folder, capsys, said):
    rewrite(folder, ARCHITECTURES[said])
    assert said in says(capsys, *model_step(folder))
    assert nothing_written(folder)


@pytest.mark.parametrize("older", [{"no_tie_adaptive_proj": False}, {"decoder_final_norm": False}])
def test_options_under_their_older_names_mean_the_same(folder, older):
    new = checkpoint.read(folder / "model.pt")

    def rename(content):
        options = vars(content["args"])
        del options["no_decoder_final_norm"]
        if "no_tie_adaptive_proj" in older:
            del options["tie_adaptive_proj"]
        options.update(older)

    rewrite(folder, rename)
    old = checkpoint.read(folder / "model.pt")
    assert old[0] == new[0] and all(torch.equal(old[1][name], new[1][name]) for name in new[1])


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder, capsys, number):
    rewrite(folder, lambda content: content["model"]["decoder.layers.2.fc1.weight"][3, 4].fill_(number))
    assert "NaN or infinite numbers in layers.2.keys" in says(capsys, *model_step(folder))


@pytest.mark.parametrize("key", ["sha256", "dictionary_sha256"])
def test_a_checkpoint_or_dictionary_other_than_the_pinned_one(folder, capsys, key):
    arguments = model_step(folder)
    settings = copy.deepcopy(SMALL)
    settings["model"][key] = "1" * 64
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    assert f"model.{key}" in says(capsys, *arguments)


# -- what a run asks for ---------------------------------------------------------------------------------------------


def test_keys_that_never_fire_are_counted(folder):
    rewrite(folder, lambda content: content["model"]["decoder.layers.0.fc1.bias"][:7].fill_(-1e4))
    out = run_steps(folder, config())
    fire = pl.read_parquet(out / "triggers.parquet").select("layer", "key").n_unique()
    counts = dict(pl.read_parquet(out / "counts" / "triggers.parquet").select("reason", "n").iter_rows())
    assert counts["keys_that_never_fire"] == 3 * 24 - fire >= 7


def test_numbers_that_overflow_are_refused(folder, capsys):
    def blow_up(content):
        for layer in range(3):
            content["model"][f"decoder.layers.{layer}.fc2.weight"].mul_(1e30)
            content["model"][f"decoder.layers.{layer}.fc1.weight"].mul_(1e30)

    rewrite(folder, blow_up)
    with pytest.raises((SystemExit, AssertionError)):
        run_steps(folder, config())
    said = capsys.readouterr().err
    found = re.match(r"error: sentences (\d+) to (\d+): numbers that the model computes overflow in float32\n", said)
    assert found and int(found[1]) < int(found[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_asked_for_and_absent(folder, capsys):
    run_steps(folder, config())
    out = folder / "out"
    said = says(capsys, "values", "--config", folder / "config.yaml", "--weights", out / "model.safetensors",
                "--description", out / "model.json", "--device", "cuda", "--corpus", out / "corpus.safetensors",
                "--triggers", out / "triggers.parquet", "--values", out / "new" / "values.parquet")  # fmt: skip
    assert "execution.device is cuda, and no GPU can be used here" in said
    assert not (out / "new").exists()


# -- config ----------------------------------------------------------------------------------------------------------


CONFIGS: dict[str, dict[str, Any]] = {
    "triggers.tpo: unknown key": {"triggers__tpo": 3},
    "triggers.top: .*(found True)": {"triggers__top": True},
    "corpus.segmenter: ": {"corpus__segmenter": "magic"},
    "mutations.top: 7 is more than triggers.top": {"mutations__top": 7},
    "give either source or train.files": {"corpus__source": "docstrings"},
    "give either source or checkpoint": {"model__checkpoint": None},
    "figures.figure1: no such figure": {"figures": {"figure1": {}}},
    "figures.figure4.width: .*(found 130)": {"figures": {"figure4": {"width": 130}}},  # would clip what it says
    "run: ": {"run": "../outside"},
    "{a}.pt: Snakemake reads braces": {"model__checkpoint": "{a}.pt"},
    "values.target: 'next' contradicts fidelity: released": {"fidelity": "released", "values__target": "next"},
}  # fmt: skip


@pytest.mark.parametrize("said", CONFIGS)
def test_a_faulty_config_is_refused_with_the_keys_path(said):
    with pytest.raises(UserError, match=said.replace("(", r"\(").replace(")", r"\)")):
        parse(config(**CONFIGS[said]))


def test_a_protocol_is_shared_and_contradicted_by_no_run(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    shared = {"triggers": {"top": 25}, "mutations": {"top": 20}, "corpus": {"train": {"max_sentences": 7}}}
    write = lambda data: (folder / "shared.yaml").write_text(yaml.safe_dump(data))
    write(shared)
    arguments = ["init", "my.yaml", "--checkpoint", "model.pt", "--dictionary", "dict.txt", "--train", "train.txt",
                 "--validation", "validation.txt", "--protocol", "shared.yaml"]  # fmt: skip
    step(*arguments, "--set", "patterns.top=5")
    made = load("my.yaml")
    assert "the file already exists" in says(capsys, *arguments)
    assert "triggers.tpo: unknown key" in says(capsys, *arguments, "--force", "--set", "triggers.tpo=25")
    assert load("my.yaml") == made
    assert (made.triggers.top, made.mutations.top, made.patterns.top, made.corpus.train.max_sentences) == (25, 20, 5, 7)
    files = Run.read("my.yaml").by_file(["triggers", "patterns", "corpus.train", "seed"])
    assert files["shared.yaml"] == {"corpus.train": {"max_sentences": 7}, "triggers": {"top": 25}}
    assert "top" not in files["my.yaml"]["triggers"] and files["my.yaml"]["patterns"]["top"] == 5
    write(shared | {"triggers": {"top": 30}})
    assert load("my.yaml").triggers.top == 30  # changed in one place
    write(shared | {"patterns": {"top": 6}})
    with pytest.raises(UserError, match=r"my.yaml: patterns.top: 5 contradicts shared.yaml, which has 6"):
        load("my.yaml")
    assert "patterns.top: 5 contradicts" in says(capsys, *arguments, "--force", "--set", "patterns.top=5")
    (folder / "shared.yaml").unlink()
    assert "shared.yaml: no such config file" in says(capsys, *arguments, "--force")


SAMPLED = {"composition__sample_file": "sample.jsonl"}


@pytest.mark.parametrize(
    "line, said",
    [
        ('{"text": "a b", "random_pos": true}', "line 2: random_pos: Input should be a valid integer"),
        ("[" * 99_999, "line 2: not readable as JSON"),
        ('{"text": "a b", "random_pos": -1}', "line 2: random_pos: Input should be greater than or equal to 0"),
        ("\udcff", "line 2: not UTF-8 at byte 0"),
    ],
)
def test_a_faulty_sample_is_refused_when_a_run_starts(tmp_path, monkeypatch, line, said):
    monkeypatch.chdir(tmp_path)
    good = '{"text": "a b", "random_pos": 1}\n'
    (tmp_path / "sample.jsonl").write_bytes((good + line).encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"sample.jsonl, {said}"):
        refuse_bad_sample(Run(config(**SAMPLED)))
    (tmp_path / "sample.jsonl").write_text(good * 2)
    refuse_bad_sample(Run(config(**SAMPLED)))


def test_only_the_papers_own_model_and_text_have_the_papers_scope():
    from argparse import Namespace

    from ff_memories.steps.model import PAPER_SIZE, scope

    paper = load(ROOT / "config" / "paper.yaml").resolved()
    size: Any = Namespace(parameters=PAPER_SIZE[0], vocab=PAPER_SIZE[1])
    assert scope(Settings(paper), size) == "paper"
    other: Any = Namespace(parameters=size.parameters + 1, vocab=size.vocab)
    assert scope(Settings(paper), other) == "surrogate"
    capped = copy.deepcopy(paper)
    capped["corpus"]["train"]["max_sentences"] = 1000
    assert scope(Settings(capped), size) == "surrogate"
    foreign = copy.deepcopy(paper)
    foreign["corpus"] |= {"source": None, "train": {"files": ["x"]}, "validation": {"files": ["x"]}}
    assert scope(Settings(foreign), size) == "surrogate"


OTHERS = {
    "what follows": pl.lit(1_000_000).alias("next_token"), "another text": pl.col("next_token").fill_null(4) + 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_inputs(folder, TYPES)
    return run_steps(folder, config())


@pytest.mark.parametrize("step", ["values", "mutations"])
@pytest.mark.parametrize("other", OTHERS)
def test_triggers_of_another_run_are_refused_before_anything_is_computed(made, tmp_path, capsys, other, step):
    frame = tables.read(made / "triggers.parquet")
    frame.with_columns(OTHERS[other]).cast(frame.schema).write_parquet(tmp_path / "triggers.parquet")
    said = says(capsys, step, "--config", made.parent / "config.yaml", "--weights", made / "model.safetensors",
                "--description", made / "model.json", "--device", "cpu", "--threads", 1, "--batch-tokens", 512,
                "--corpus", made / "corpus.safetensors", "--triggers", tmp_path / "triggers.parquet", f"--{step}",
                tmp_path / f"{step}.parquet",
                *(["--counts", tmp_path / "counts.parquet"] if step == "mutations" else []))  # fmt: skip
    assert "triggers.parquet: not the triggers of this model in this text" in said
    assert [path.name for path in tmp_path.iterdir()] == ["triggers.parquet"]
