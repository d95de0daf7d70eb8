"""Sentences that processes cut are those that one cuts; with a pipeline that is fetched."""

import zipfile

import pytest
from mirror import serving
from planted_run import prepare
from running import change, snakemake

from ff_memories.corpus.segment import cuts, segmenter


@pytest.mark.slow
def test_processes_cut_paragraphs_in_order_where_one_does():
    pytest.importorskip("spacy", reason="the spacy extra is not installed")
    paragraphs = [f"{n} . Two ! {'three ' * (n % 7)} ?".split() for n in range(300)]
    alone = segmenter("spacy:blank")
    assert list(cuts(paragraphs, "spacy:blank", None, False, 2)) == [alone(words) for words in paragraphs]


@pytest.mark.more
@pytest.mark.slow
def test_a_fetched_spacy_pipeline_cuts_through_snakemake(tmp_path):
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
    made = (folder / "results/planted/corpus/corpus.safetensors").read_bytes()
    assert len(made) > 1000
