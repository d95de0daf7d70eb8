"""A trace against brute force, what a run knows of its memories, and what the command refuses."""

import json
import re

import factories
import numpy as np
import pytest
import tiny
import torch
import yaml
from galleries import HOSTILE
from pipeline import config, step, write_inputs
from reference import Reference
from reports import Tags
from transformers.pytorch_utils import Conv1D

from ff_memories.api import Model, load_model, trace
from ff_memories.cli import main
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.paper.layers import tracing
from ff_memories.report.gallery import parts
from ff_memories.report.trace import page

PARTS = ("residual", "update", "output")
TEXT = "the lamp , zzz the ."


def kind_of(residual, update, output):
    """Whose prediction it is, in the words of section 5.2."""
    if output == residual:
        return "agreement" if output == update else "residual"
    return "ffn" if output == update else "composition"


def check_cell(cell, vectors, read, coefficients, values, signs):
    """Check a cell against r, y and o, what they predict, and its layer's coefficients (d_m,) and values (d_m, d)."""
    tops = []
    for part, vector in zip(PARTS, vectors, strict=True):
        p = read(vector)
        best = p.topk(len(cell[part])).values.tolist()
        said = [t["probability"] for t in cell[part]]
        assert said == pytest.approx(best, rel=2e-4, abs=1e-7)
        assert said == pytest.approx([float(p[t["id"]]) for t in cell[part]], rel=2e-4, abs=1e-7)
        tops.append(cell[part][0]["id"])
    assert cell["kind"] == kind_of(*tops)
    weights = [abs(float(m)) * float(v.norm()) for m, v in zip(coefficients, values, strict=True)]
    shares = [weight / sum(weights) for weight in weights]
    largest = [share for share in sorted(shares, reverse=True)[: len(cell["memories"])] if share > 0]
    assert [m["share"] for m in cell["memories"]] == pytest.approx(largest, rel=1e-3)
    for memory in cell["memories"]:
        m = float(coefficients[memory["key"]])
        assert memory["sign"] == (-1 if signs == 2 and m < 0 else 1)
        assert memory["sign"] * memory["coefficient"] == pytest.approx(m, rel=1e-3, abs=1e-5)
        assert memory["share"] == pytest.approx(shares[memory["key"]], rel=1e-3)


@pytest.fixture(scope="module")
def fairseq(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fairseq")
    types = ["lamp", *factories.words(32)]
    model, _ = factories.write_checkpoint(folder / "model.pt", types, scale=2.0)
    factories.write_dictionary(folder / "dict.txt", types)
    return load_model(folder / "model.pt", folder / "dict.txt"), Reference(model, types)


def test_a_fairseq_models_trace_is_that_of_brute_force(fairseq):
    model, reference = fairseq
    found = trace(model, TEXT, top=7, predictions=4)
    tokens = reference.encode(TEXT.split())
    assert [p["id"] for p in found["positions"]] == [2, *tokens]
    assert [p.get("written") for p in found["positions"]] == [None] * 4 + ["zzz", None, None]
    assert [p["unknown"] for p in found["positions"]].count(True) == 1
    seen, cells = reference.layers(tokens), iter(found["cells"])
    read = lambda h: reference.log_probabilities(h, final=True).exp()
    for place in range(len(tokens) + 1):
        for number, (r, m, y) in enumerate(seen, 1):
            cell = next(cells)
            assert (cell["position"], cell["layer"]) == (place, number)
            values = reference.blocks[number - 1].fc2.weight.detach().t()
            check_cell(cell, (r[place], y[place], r[place] + y[place]), read, m[place], values, 1)
    assert next(cells, None) is None
    assert len({cell["kind"] for cell in found["cells"]}) > 1
    for memory in found["memories"]:
        p = reference.log_probabilities(reference.blocks[memory["layer"] - 1].fc2.weight[:, memory["key"]].detach())
        said = [t["probability"] for t in memory["promotes"]]
        assert said == pytest.approx(p.exp().topk(5).values.tolist(), rel=1e-4)
    listed_ = {(m["layer"], m["key"], m["sign"]) for m in found["memories"]}
    assert len(listed_) == len(found["memories"])
    assert listed_ == {(c["layer"], m["key"], m["sign"]) for c in found["cells"] for m in c["memories"]}


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "gpt_neox", "bloom"])
@pytest.mark.parametrize("signs", [1, 2])
def test_a_transformers_models_trace_is_that_of_brute_force(name, signs):
    made, row = tiny.model(name), tiny.family(name)
    types = Dictionary([f"w{n}" for n in range(tiny.TYPES - 4)])
    model = Model(tiny.analysed(made, row, signs), types)
    found = trace(model, "w9 w3 w40 w3 w77", top=6, predictions=3, projection="raw")
    truths, _ = tiny.alone(made, row, np.array([13, 7, 44, 7, 81]))
    norm, head = made.get_submodule(row.final_norm), made.get_output_embeddings()
    cap = getattr(made.config, "final_logit_softcapping", None)

    def read(h):
        logits = head(norm(h[None]))[0]
        return torch.softmax(logits if cap is None else cap * torch.tanh(logits / cap), 0)

    layers = made.get_submodule(tiny.layers_at(made))
    cells, every = iter(found["cells"]), []
    for layer in layers:
        down = layer.get_submodule(row.down)
        values = down.weight if isinstance(down, Conv1D) else down.weight.t()
        every.append(values * (1 + layer.get_submodule(row.norm_after).weight) if row.norm_after else values)  # Gemma's
    for place in range(6):
        for values, truth in zip(every, truths, strict=True):
            r, y = truth.residual[place], truth.update[place]
            check_cell(next(cells), (r, y, r + y), read, truth.coefficients[place], values, signs)
    assert {m["sign"] for m in found["memories"]} == ({1, -1} if signs == 2 and row.gated else {1})
    for memory in found["memories"]:
        p = torch.softmax(head.weight @ (memory["sign"] * every[memory["layer"] - 1][memory["key"]]), 0)
        said = [t["probability"] for t in memory["promotes"]]
        assert said == pytest.approx(p.topk(5).values.tolist(), rel=1e-4)
        assert said == pytest.approx([float(p[t["id"]]) for t in memory["promotes"]], rel=1e-4)


def test_what_is_asked_for_limits_what_is_shown(fairseq):
    model, _ = fairseq
    whole, some = trace(model, TEXT, top=4), trace(model, TEXT, top=2, predictions=1, layers=[3, 1, 3])
    assert some["layers"] == [1, 3]
    kept = [cell for cell in whole["cells"] if cell["layer"] != 2]
    for short, cell in zip(some["cells"], kept, strict=True):
        assert short["memories"] == cell["memories"][:2]
        assert short["output"] == cell["output"][:1]
    every = trace(model, TEXT, top=10**6, predictions=10**6)
    assert all(len(cell["output"]) == len(model.dictionary) for cell in every["cells"])
    assert all(sum(m["share"] for m in cell["memories"]) == pytest.approx(1, abs=1e-5) for cell in every["cells"])


def test_a_value_promotes_none_of_the_types_that_are_left_out(fairseq):
    model, _ = fairseq
    among = lambda types: trace(model, TEXT, types=types)["memories"]
    specials = {"<s>", "<pad>"}
    words = lambda memories: [[t["token"] for t in memory["promotes"]] for memory in memories]
    assert any(specials & set(own) for own in words(among("all")))
    for with_all, without in zip(words(among("all")), words(among("trained")), strict=True):
        assert not specials & set(without)
        kept = [word for word in with_all if word not in specials]
        assert without[: len(kept)] == kept


def test_padding_in_a_text_is_an_unknown_word_as_in_the_corpus(fairseq):
    model, _ = fairseq
    assert [p["id"] for p in trace(model, "the <pad> lamp")["positions"]][2] == 3


def test_memories_that_add_nothing_are_not_listed():
    found = tracing.largest(torch.tensor([[0.0, 2.0, 0.0], [0, 0, 0]]), torch.ones(3, 4), 3)
    assert found[2].tolist() == [[1, 0, 0], [0, 0, 0]]
    signed = tracing.largest(torch.tensor([[1.0, -2.0, 0.0]]), torch.ones(6, 4), 2, signs=2)
    assert [part.tolist() for part in signed[:2]] == [[[4, 0]], [[2, 1]]]


def test_memories_have_their_addresses_in_the_runs_gallery(tmp_path):
    gated = Model(tiny.analysed(tiny.model("llama"), signs=2), Dictionary([f"w{n}" for n in range(tiny.TYPES - 4)]))
    plain = trace(gated, "w9 w3 w40", top=4)["memories"]
    number = lambda m: m["key"] + tiny.KEYS * (m["sign"] < 0)
    positive = next(m for m in plain if m["sign"] > 0)
    negative = next(m for m in plain if m["sign"] < 0)
    shown = [[], [], []]
    for memory in (positive, negative):
        shown[memory["layer"] - 1].append(number(memory))
    results = tmp_path / "results" / "my run"
    (results / "gallery" / "data").mkdir(parents=True)
    (results / "gallery" / "index.html").write_text("")
    parts.write(results / "gallery", "manifest", {"shown": shown})
    found = trace(gated, "w9 w3 w40", top=4, results=results)
    addresses = {(m["layer"], number(m)): m["address"] for m in found["memories"]}
    assert addresses.pop((negative["layer"], number(negative))) == f"#/{negative['layer']}/{negative['key']}-"
    assert addresses.pop((positive["layer"], number(positive))) == f"#/{positive['layer']}/{positive['key']}"
    assert set(addresses.values()) == {None}
    assert found["gallery"] == (results / "gallery" / "index.html").as_posix()
    assert '"gallery":"../results/my%20run/gallery/index.html"' in page(found, tmp_path / "pages")
    assert trace(gated, "w9 w3 w40", results=tmp_path)["gallery"] is None


def test_a_page_shows_hostile_text_as_text(tmp_path):
    hostile = [word for word in HOSTILE if word.split() == [word]]
    types = [*hostile, *factories.words(40)]
    factories.write_checkpoint(tmp_path / "model.pt", types)
    factories.write_dictionary(tmp_path / "dict.txt", types)
    model = load_model(tmp_path / "model.pt", tmp_path / "dict.txt")
    text = " ".join([*hostile, "<i>unknown</i>", "</script><script>alert(1)</script>"])
    html = page(trace(model, text) | {"run": "a<b>"}, tmp_path)
    found = Tags(html).found
    tags = [tag for tag, _ in found]
    assert tags.count("script") == 2 and "img" not in tags
    assert html.count("</script>") == 2
    assert "[U+202E]" in html and "\u202e" not in html
    assert not [a for _, attributes in found for a in attributes if a.startswith("on") or a == "src"]
    policy = next(a["content"] for tag, a in found if a.get("http-equiv"))
    assert "default-src 'none'" in policy and "sha256-" in policy
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert len(data["cells"]) == len(data["positions"]) * 3
    assert sum(tag == "td" for tag in tags) == len(data["cells"])


# The command.


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A run whose model step has run, and nothing else."""
    folder = tmp_path_factory.mktemp("run")
    write_inputs(folder, factories.words(32))
    (folder / "my.yaml").write_text(yaml.safe_dump(config()))
    own = folder / "results" / "small" / "model"
    step("model", "--config", folder / "my.yaml", "--checkpoint", folder / "model.pt", "--dictionary",
         folder / "dict.txt", "--weights", own / "model.safetensors", "--description", own / "model.json", "--info",
         own / "info.json")  # fmt: skip
    (folder / "taken").mkdir()
    return folder


@pytest.fixture
def run(project, monkeypatch, capsys):
    monkeypatch.chdir(project)

    def run(*arguments):
        try:
            main(["trace", "--configfile", "my.yaml", *map(str, arguments)])
        except SystemExit as end:
            return end.code or 0, *capsys.readouterr()

    return run


def test_the_command_prints_the_last_position(run):
    status, out, err = run("the zzz ?")
    assert status == 0
    assert err == "the model does not know: zzz\n"
    first, heads, *rows = out.splitlines()
    assert first.startswith("after ? (position 3)")
    assert heads.split()[:2] == ["layer", "kind"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert run("the zzz ?", "--layer", 2)[1].splitlines()[2:] == [rows[1]]


def test_the_command_writes_a_page_and_json_of_the_same(run, project, tmp_path):
    status, out, _ = run("the\nnew ?", "--out", tmp_path / "page.html", "--json", tmp_path / "found.json")
    assert (status, out) == (0, f"wrote {tmp_path / 'page.html'}\nwrote {tmp_path / 'found.json'}\n")
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["run"], found["scope"], found["text"]) == ("small", "surrogate", "the new ?")
    model = load_model(project / "results/small/model/model.safetensors", project / "dict.txt")
    expected = trace(model, "the new ?", results="results/small")
    assert {name: found[name] for name in expected} == expected
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Surrogate model: not the paper" in html and "run <q>small</q>" in html


def test_set_compares_predictions_with_and_without_memories(run, tmp_path):
    asked = ["the lamp ?", "--set", "1:3=9", "3:5=x2", "--tokens", 4]
    status, *_ = run(*asked, "--json", tmp_path / "found.json", "--out", tmp_path / "page.html")
    assert status == 0
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    first, second = found["set"]
    assert (first["layer"], first["key"], first["sign"], first["set_to"]) == (1, 3, 1, 9)
    assert second["set_to"] == pytest.approx(2 * second["coefficient"])
    chances = lambda tokens: {token["token"]: token["probability"] for token in tokens}
    output = chances(found["cells"][-1]["output"][:4])
    assert chances(found["before"]) == pytest.approx(output, rel=1e-5) != chances(found["after"])
    told = f"1:3: {first['coefficient']:.4g} to 9"
    assert told in (tmp_path / "page.html").read_text(encoding="utf-8")
    *_, said, heads = run(*asked)[1].splitlines()[:-4]
    assert told in said and heads.split() == ["before", "after"]
    run("the lamp ?", "--json", tmp_path / "plain.json")
    assert not {"set", "before", "after"} & json.loads((tmp_path / "plain.json").read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([" "], "the text is empty"),
        (["the " * 64], "the text has 64 tokens, but the model takes at most 63"),
        (["the", "--layer", 4], "layer 4: the model has layers 1 to 3"),
        (["\udcff"], "the text: not UTF-8 at byte 0"),
        (["the", "--out", "taken"], "taken: expected a file, found a directory"),
        (["the", "--top", 0], "expected a whole number from 1"),
        (["the", "--set", "2:3"], "'2:3': not a memory and a number"),
        (["the", "--set", "2:3=nan"], "'2:3=nan': 'nan' is no number"),
        (["the", "--set", "2:24=0"], "key 24: layer 2 has keys 0 to 23"),
        (["the", "--set", "2:3-=0"], "sign -1: this model's memories have the sign 1 alone"),
        (["the", "--set", "2:3=0", "2:3=x2"], "a memory is set twice"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(run, project, arguments, said):
    before = sorted(project.rglob("*"))
    if not {"--out", "--json"} & set(map(str, arguments)):
        arguments = [*arguments, "--out", "page.html", "--json", "found.json"]
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert said in err and "Traceback" not in err
    assert sorted(project.rglob("*")) == before
