"""Sentences cut in shards are those cut in one go, whatever the number of shards; with a pipeline that is fetched."""

import random
import zipfile

import numpy as np
import pytest
import yaml
from mirror import serving
from planted_run import prepare
from running import change, snakemake

from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.splitting import cuts
from ff_memories.corpus.splitting.segment import rule
from ff_memories.corpus.text import sentences


@pytest.fixture
def files(tmp_path):
    rng = random.Random(1)
    for name, n in (("train.txt", 37), ("more.txt", 5), ("validation.txt", 11)):
        lines = []
        for _ in range(n):
            words = " ".join(rng.choice(["a", "b", ".", "?", '"']) for _ in range(rng.randint(1, 12)))
            lines += rng.choice([[words], [" ", words], [" = a = ", words]])
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return [[tmp_path / "train.txt", tmp_path / "more.txt"], [tmp_path / "validation.txt"]]


@pytest.mark.parametrize("shards", [1, 3, 200])
@pytest.mark.parametrize("most, headings", [(None, "keep"), (20, "keep"), (20, "drop")])
def test_replayed_cuts_give_the_sentences_that_the_segmenter_gives(files, tmp_path, shards, most, headings):
    dictionary = Dictionary(["a", "b", ".", "?", '"', "="])
    options = dict(dictionary=dictionary, max_tokens=30, headings=headings)
    corpus = {"headings": headings, "train": {"max_sentences": most}, "validation": {"max_sentences": None}}
    needed = [cuts.needed(corpus, split) for split in ("train", "validation")]
    splits = list(zip(files, needed, strict=True))
    for shard in reversed(range(shards)):
        cuts.save(cuts.find(splits, rule, shard, shards), tmp_path / f"{shard}.safetensors")
    made = [cuts.load(tmp_path / f"{shard}.safetensors") for shard in range(shards)]
    replayed = cuts.replay(made, [sum(1 for _ in cuts.texts(*split)) for split in splits])
    for own, cut, limit in zip(files, replayed, (most, None), strict=True):
        there = sentences(own, segmenter=cut, max_sentences=limit, **options)
        here = sentences(own, segmenter=rule, max_sentences=limit, **options)
        assert len(here) > 10
        assert there == here


def test_cuts_of_another_text_are_refused(files):
    made = [cuts.find([(own, None) for own in files], rule, 0, 1)]
    with pytest.raises(UserError, match="another text"):
        cuts.replay(made, [3, 4])
    [first, _] = cuts.replay(made, [sum(1 for _ in cuts.texts(own, None)) for own in files])
    with pytest.raises(UserError, match="another text"):
        first(["a"] * 99)
    assert np.array_equal(made[0].sentences > 0, made[0].words > 0)


@pytest.mark.more
@pytest.mark.slow
def test_a_fetched_spacy_pipeline_cuts_in_shards_through_snakemake(tmp_path):
    spacy = pytest.importorskip("spacy", reason="the spacy extra is not installed")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.to_disk(tmp_path / "made")
    (tmp_path / "web").mkdir()
    with zipfile.ZipFile(tmp_path / "web" / "pipeline.whl", "w") as wheel:
        for path in sorted((tmp_path / "made").rglob("*")):
            if path.is_file():
                wheel.write(path, f"en_core_web_sm/en_core_web_sm-3.8.0/{path.relative_to(tmp_path / 'made')}")
    folder = tmp_path / "run"
    folder.mkdir()
    prepare(folder)
    change(folder, "corpus.segmenter", "spacy:en_core_web_sm")
    change(folder, "sources.registry", "registry.toml")
    with serving(tmp_path / "web") as (address, _, _):
        (folder / "registry.toml").write_text(
            '[en_core_web_sm]\nkind = "pipeline"\nfolder = "data/pipeline"\nfiles = { pipeline = "config.cfg" }\n'
            'inside = "en_core_web_sm/en_core_web_sm-3.8.0"\nunpacked_bytes = 1000000\nlicence = "MIT"\ncitation = ""\n'
            'downloads = [{ format = "zip", parts = [{ name = "pipeline.whl", urls = '
            f'["{address}/pipeline.whl"] }}] }}]\n'
        )
        snakemake(folder, "--quiet", "--", "results/planted/corpus/corpus.safetensors")
    shards = yaml.safe_load((folder / "my.yaml").read_text())["execution"]["shards"]
    assert len(list((folder / "results/planted/cuts").iterdir())) == shards
    made = (folder / "results/planted/corpus/corpus.safetensors").read_bytes()
    assert len(made) > 1000
