"""Test the gallery without a browser: its parts match the tables, and hostile text stays text."""

import json
import re
import unicodedata
from collections import Counter

import numpy as np
import polars as pl
import pytest
import tiny
import torch
from galleries import CONFIG, HOSTILE, build, material
from hypothesis import given
from hypothesis import strategies as st
from planted_run import TYPES, planted
from refusing import says
from running import ROOT

from ff_memories import tables
from ff_memories.gallery import promoted
from ff_memories.model.loading import read_model
from ff_memories.paper.values import values as predictions
from ff_memories.report.gallery import TABLES, parts, site
from ff_memories.report.gallery.keys import LEVELS, key_parts
from ff_memories.report.gallery.parts import number, shown

STATIC = ROOT / "src" / "ff_memories" / "report" / "gallery" / "static"
utf16 = lambda text: text.encode("utf-16-be", "surrogatepass")  # the order of JavaScript


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "gallery"
    return build(folder), folder


@pytest.fixture(scope="module")
def planted_gallery(planted_run):
    results = planted_run / "results" / "planted"
    return results, results / "gallery", parts.read(results / "gallery", "manifest")


def records(folder, manifest):
    size = manifest["layers"] * manifest["keys"]
    every = [r for i in range(-(-size // manifest["keys_of_a_part"])) for r in parts.read(folder, f"keys-{i}")]
    assert len(every) == size
    return every


def test_shading_follows_the_closed_form_of_planted_memories(planted_gallery):
    _, folder, manifest = planted_gallery
    truth, ids = planted(), {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *TYPES])}
    silent, loud = 0, 0
    for ordinal, record in enumerate(records(folder, manifest)):
        layer, key = 1 + ordinal // manifest["keys"], ordinal % manifest["keys"]
        assert len(record["h"]) == len(record["t"])
        for text, levels in zip(record["t"], record["h"], strict=True):
            prefix = tuple(ids[word] for word in text.split(" "))
            for j, level in enumerate(levels, 1):
                expected = truth.coefficients(layer, prefix[:j]).get(key, 0.0) / record["c"][0]
                assert abs(LEVELS.index(level) - expected * (len(LEVELS) - 1)) <= 0.51
                silent, loud = silent + (level == "0"), loud + (level != "0")
    assert silent > 100 < loud


def test_top_tokens_are_the_models_with_the_tables_first(planted_gallery):
    results, _, _ = planted_gallery
    decoder = read_model(results / "model" / "model.safetensors", results / "model" / "model.json")
    values = tables.read(results / "tables" / "values.parquet")
    most, least = promoted.tables(decoder, decoder.vocabulary, values, 5)
    rows = lambda frame, column: frame[column].to_numpy().reshape(-1, 5)
    assert (rows(most, "token")[:, 0] == values["top_token"].to_numpy()).all()
    vectors = torch.cat([layer.values for layer in decoder.layers])
    log_p = decoder.vocabulary.log_probabilities(vectors).double().numpy()
    added = log_p - decoder.vocabulary.log_probabilities(torch.zeros_like(vectors[:1])).double().numpy()
    logits = added - added.mean(1, keepdims=True)
    assert np.ptp(log_p - added, axis=1).min() > 0.1, "an adaptive softmax prefers some tokens under a vector of zeros"
    lowest, highest = np.sort(logits, axis=1)[:, :5], np.sort(log_p, axis=1)[:, :-6:-1]
    np.testing.assert_allclose(rows(least, "logit"), lowest, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.log(rows(most, "probability")), highest, rtol=1e-5, atol=1e-5)
    for frame in (most, least):
        assert all(len(set(own.tolist())) == 5 for own in rows(frame, "token"))
        own = np.take_along_axis(logits, rows(frame, "token").astype(np.int64), axis=1)
        np.testing.assert_allclose(rows(frame, "logit"), own, rtol=1e-5, atol=1e-5)
    p = np.take_along_axis(np.exp(log_p), rows(most, "token").astype(np.int64), axis=1)
    np.testing.assert_allclose(rows(most, "probability"), p, rtol=1e-5)


def test_tokens_beside_the_top_one_are_of_a_value_of_the_same_length():
    decoder = tiny.analysed(tiny.model("gpt2"))
    grid = decoder.description.layers, decoder.memories
    read = predictions.value_predictions(decoder, decoder.vocabulary, np.full(grid, -1), length="mean")["all"]
    layer, key = (axis.ravel() for axis in np.indices(grid))
    columns = {"top_token": read.top.ravel(), "top_probability": read.probability.ravel()}
    values = pl.DataFrame({"layer": layer + 1, "key": key} | columns)
    most, _ = promoted.tables(decoder, decoder.vocabulary, values, 9, "mean")
    lengths = torch.cat([layer.values for layer in decoder.layers]).norm(dim=1, keepdim=True)
    vectors = torch.cat([layer.values for layer in decoder.layers]) * lengths.mean() / lengths
    own = decoder.vocabulary.log_probabilities(vectors).exp().topk(9).values.numpy()
    np.testing.assert_allclose(most["probability"].to_numpy().reshape(-1, 9), own, rtol=1e-4)


def undo(pairs):
    return dict(zip(np.cumsum(pairs[::2]).tolist(), pairs[1::2], strict=True))


def terms_of(folder, manifest):
    """Return the places of each word by trigger, as the index has them."""
    out = {}
    for i in range(len(manifest["terms"])):
        for word, steps, places in parts.read(folder, f"terms-{i}"):
            found, rest = out.setdefault(word, {}), np.cumsum(steps).tolist()
            assert not found.keys() & set(rest)
            for place in places:
                found.setdefault(rest[0], []).append(place & 63)
                if place > 63:
                    rest.pop(0)
            assert not rest
    return out


@pytest.mark.parametrize("small", [False, True], ids=["one entry", "many entries and parts"])
def test_the_index_of_words_finds_every_key_and_no_other(tmp_path, monkeypatch, small):
    if small:
        monkeypatch.setattr("ff_memories.report.gallery.words.TERMS_OF_A_PART", 100)
        for name, size in (("TRIGGERS_OF_AN_ENTRY", 50), ("ROWS", 7)):
            monkeypatch.setattr(f"ff_memories.report.gallery.words.{name}", size)
    folder = tmp_path / "g"
    build(folder)
    manifest = parts.read(folder, "manifest")
    entries = [entry for i in range(len(manifest["words"])) for entry in parts.read(folder, f"words-{i}")]
    every = records(folder, manifest)
    ends, holds, promotes = {}, {}, {}
    for ordinal, record in enumerate(every):
        for i, text in enumerate(record["t"]):
            words = text.split(" ")
            before = words[-2] if len(words) > 1 else ""
            ends.setdefault(words[-1], {}).setdefault(before, Counter())[ordinal] += 1
            for place, word in enumerate(reversed(words)):
                holds.setdefault(word, {}).setdefault(ordinal * manifest["top"] + i, []).append(place)
        for place, (word, *_) in enumerate(record["v"], 1):
            promotes.setdefault(word, {})[ordinal] = place
    assert len(entries) == len({e[0] for e in entries}) == len(ends.keys() | promotes.keys())
    for word, fires, value in entries:
        assert {b: undo(pairs) for b, pairs in fires.items()} == ends.get(word, {})
        assert undo(value) == promotes.get(word, {})
    assert terms_of(folder, manifest) == holds
    assert manifest["terms"] == sorted(manifest["terms"], key=utf16) and (len(manifest["terms"]) > 100) == small
    folded = [utf16(e[0].lower()) for e in entries]
    assert folded == sorted(folded)


def test_labels_and_disagreements_are_counted(made):
    m, folder = made
    layer = parts.read(folder, "layer-2")
    assert layer["disagree"] == {"1": 2}
    assert layer["labels"] == {"1": [4, 0, 2, 0]}
    assert layer["changes"] == {key: [-0.5] * 3 for key in ("1", "2", "3")}
    assert layer["coefficient"][0] is None and layer["triggers"][0] == 0 and layer["end"][0] is None
    agrees = [None if n is None else n == t for n, t in zip(layer["next"], layer["top"], strict=True)]
    assert agrees == m["values"].filter(pl.col("layer") == 2)["agrees"].to_list()


@given(st.text())
def test_every_token_is_shown_without_anything_invisible(token):
    made = shown(token)
    assert shown(made) == made
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp") for c in made)
    assert len(made.split(" ")) == 1 and not (made and unicodedata.category(made[0]).startswith("M"))


def test_parts_are_scripts_of_nothing_but_base64(made):
    _, folder = made
    for path in (folder / "data").iterdir():
        assert re.fullmatch(rf'part\("{path.stem}","[A-Za-z0-9+/=]+"\);\n', path.read_text(encoding="ascii"))
    shown_words = [e[0] for e in parts.read(folder, "words-0")]
    assert shown(HOSTILE[0]) in shown_words and "a[U+202E]b" in shown_words


def test_the_page_loads_scripts_of_its_own_alone_and_says_surrogate(made):
    _, folder = made
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert "Surrogate model: not the paper's." in html and "default-src 'none'" in html
    assert re.findall(r'src="([^"]+)"', html) == [f"{name}.js" for name in site.SCRIPTS]
    assert {path.stem for path in STATIC.glob("*.js")} == set(site.SCRIPTS)
    assert "Surrogate" not in site.index("x", "paper") and "&lt;b&gt;" in site.index("<b>", "paper")


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_no_script_makes_markup_of_text_or_calls_out(path):
    script = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?:|\bimport\b", script)


def test_the_same_run_gives_the_same_gallery_byte_for_byte(made, tmp_path):
    _, folder = made
    build(tmp_path / "again")
    names = lambda top: {path.relative_to(top): path.read_bytes() for path in top.rglob("*") if path.is_file()}
    assert names(folder) == names(tmp_path / "again")


def test_an_old_gallery_is_replaced_whole_and_another_folder_is_refused(tmp_path):
    build(tmp_path / "g")
    (tmp_path / "g" / "data" / "keys-99.js").write_text("old")
    build(tmp_path / "g")
    assert not (tmp_path / "g" / "data" / "keys-99.js").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(Exception, match="something other than a gallery"):
        build(tmp_path / "mine")
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_a_dictionary_of_another_run_is_refused_and_nothing_is_written(planted_run, tmp_path, capsys):
    results = planted_run / "results" / "planted"
    (tmp_path / "dict.txt").write_text("only 1\n")
    read = (results / "tables" / f"{name}.parquet" for name in TABLES)
    told = says(capsys, "step", "gallery", "--config", json.dumps(CONFIG), "--info", results / "model/info.json",
                "--corpus", results / "corpus/corpus.safetensors", "--dictionary", tmp_path / "dict.txt", "--site",
                tmp_path / "out", "--tables", *read)  # fmt: skip
    assert "fewer token types" in told and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("made", "shown"), [(["double"], ""), (["double", "resample", "mean"], "set to its mean")])
def test_the_first_intervention_that_takes_a_memory_away_is_shown(made, shown):
    m = material()
    one = m["causal"].filter((pl.col("intervention") == "zero") & (pl.col("layer") == 1))
    rows = [one.with_columns(intervention=pl.lit(name, one.schema["intervention"])) for name in made]
    record = next(key_parts(material(change=lambda tables: {**tables, "causal": pl.concat(rows)})))[1]
    assert record.get("r", {"i": ""})["i"] == shown


def rows_of(table, layer, key):
    return table.filter((pl.col("layer") == layer) & (pl.col("key") == key))


def test_a_record_has_the_rows_of_every_table(made):
    m, folder = made
    manifest = parts.read(folder, "manifest")
    every = records(folder, manifest)
    tokens, offsets = m.corpus.tokens, m.corpus.offsets
    for ordinal, record in enumerate(every):
        layer, key = 1 + ordinal // manifest["keys"], ordinal % manifest["keys"]
        own = lambda name, layer=layer, key=key: rows_of(m[name], layer, key)
        assert record["v"] == [
            [m.words[t], number(p, 4), number(x, 4)]
            for t, p, x in own("promoted").select("token", "probability", "logit").iter_rows()
        ]
        assert record["d"] == [[m.words[t], number(x, 4)] for t, x in own("demoted").select("token", "logit").rows()]
        bins = dict(own("histogram").select("bin", "n").iter_rows())
        assert record.get("q", []) == [bins.get(i, 0) for i in range(max(bins, default=-1) + 1)]
        samples = own("samples").sort("percentile", descending=True)
        for i, row in enumerate(samples.iter_rows(named=True)):
            begin, end = offsets[row["sentence"]], offsets[row["sentence"] + 1]
            at = begin + row["position"]
            shown_ = [m.words[t] for t in tokens[max(begin, at - 40) : at]]
            assert record["s"]["t"][i].split(" ") == shown_
            assert record["s"]["n"][i] == (m.words[tokens[at]] if at < end else None)
            assert record["s"]["c"][i] == number(row["coefficient"])
        assert record.get("s", {"q": []})["q"] == samples["percentile"].to_list()
        gone = own("causal").filter((pl.col("intervention") == "zero") & (pl.col("control") == "none"))
        for i, row in enumerate(gone.sort("coefficient", descending=True).iter_rows(named=True)):
            begin = max(offset for offset in offsets if offset <= row["prefix"])
            prefix = [m.words[t] for t in tokens[max(begin, row["prefix"] - 39) : row["prefix"] + 1]]
            assert record["r"]["t"][i].split(" ") == prefix
            numbers = (row["coefficient"], row["direct"], row["total"], row["top_log_probability"], row["top_changed"])
            assert tuple(record["r"][name][i] for name in "cuoaz") == numbers
        assert len(record.get("r", {"t": []})["t"]) == len(gone) == (2 if key == 1 else 0)
        for of, name in (("key", "k"), ("value", "w")):
            found = own("similar").filter(pl.col("of") == of).select("other_layer", "other_key", "cosine").rows()
            assert record[name] == [[*where, number(cosine, 3)] for *where, cosine in found]
        by_rank = own("levels").group_by("rank", maintain_order=True).agg("level")["level"].to_list()
        assert [[LEVELS.index(x) for x in levels] for levels in record["h"]] == [levels[-40:] for levels in by_rank]
    assert None in [following for record in every for following in record.get("s", {"n": []})["n"]]
    for layer in (1, 2):
        index, fired = parts.read(folder, f"layer-{layer}"), m["firing"].filter(pl.col("layer") == layer)
        assert index["fired"] == fired["fired"].to_list() and set(index["prefixes"]) == {5000}


def test_a_trigger_is_folded_into_a_better_one_with_the_same_whole_prefix(made):
    m, folder = made
    every = records(folder, parts.read(folder, "manifest"))
    for ordinal, record in enumerate(every):
        first, expected = {}, []
        own = rows_of(m["triggers"], 1 + ordinal // 70, ordinal % 70).select("rank", "sentence", "position")
        for rank, sentence, position in own.iter_rows():
            best = first.setdefault(tuple(m.corpus.sentence(sentence)[:position].tolist()), rank)
            expected.append(0 if best == rank else best)
        assert record.get("e", [0] * len(own)) == expected
    assert (every[1]["e"], every[2]["e"], every[72]["e"]) == ([0, 0, 1, 0, 0, 0], *[[0, 1, 0, 1, 0, 0]] * 2)
    assert every[2]["n"][0] != every[2]["n"][1]


def test_similar_memories_of_a_negative_coefficient_have_the_other_sign():
    m = material(neurons=35)
    every = [record for part in key_parts(m) for record in part]
    seen = set()
    for layer in (1, 2):
        for key in range(35):
            rows = rows_of(m["similar"], layer, key).select("of", "other_layer", "other_key", "cosine").rows()
            for sign in (1, -1):
                record = every[(layer - 1) * 70 + key + 35 * (sign < 0)]
                expected = {"k": [], "w": []}
                for of, where, other, cosine in rows:
                    opposite = sign * np.sign(cosine) < 0
                    expected[{"key": "k", "value": "w"}[of]].append(
                        [where, other + 35 * opposite, number(abs(cosine), 3)]
                    )
                    seen.add((sign, bool(opposite)))
                assert {name: record[name] for name in "kw"} == expected
    assert len(seen) == 4


def test_a_gallery_of_some_keys_has_their_records_and_no_others(tmp_path):
    whole, folder = material(), tmp_path / "some"
    build(tmp_path / "whole", whole)
    shown = ((pl.col("layer") == 1) & (pl.col("key") % 7 == 1)) | ((pl.col("layer") == 2) & (pl.col("key") == 3))
    build(folder, material(change=lambda tables: {**tables, "promoted": tables["promoted"].filter(shown)}))
    manifest, every = parts.read(folder, "manifest"), parts.read(tmp_path / "whole", "manifest")
    assert "shown" not in every
    assert manifest["shown"] == [list(range(1, 70, 7)), [3]]
    assert manifest["keys"] == every["keys"] == 70
    (kept,) = [parts.read(folder, path.stem) for path in (folder / "data").glob("keys-*.js")]
    ordinals = [*range(1, 70, 7), 73]
    assert kept == [records(tmp_path / "whole", every)[ordinal] for ordinal in ordinals]
    for layer in (1, 2):
        own, full = (parts.read(place, f"layer-{layer}") for place in (folder, tmp_path / "whole"))
        text = lambda index, column, at: None if index[column][at] is None else index["words"][index[column][at]]
        for at, key in enumerate(manifest["shown"][layer - 1]):
            assert [text(own, c, at) for c in ("top", "next", "end")] == [
                text(full, c, key) for c in ("top", "next", "end")
            ]
            for column in ("same", "probability", "coefficient", "rank", "agreeing", "measured", "triggers"):
                assert own[column][at] == full[column][key]
            for column in ("labels", "disagree", "changes"):
                assert own[column].get(str(at)) == full[column].get(str(key))
        assert len(own["top"]) == len(manifest["shown"][layer - 1])
    assert [row["fire"] for row in manifest["summary"]] == [10, 1]
