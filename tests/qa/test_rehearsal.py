"""The paper's run, rehearsed on random weights: at full size (long), and its beginning at a small one."""

import json

import pytest

from tools.qa.rehearsal import FULL, TINY, rehearse

pytestmark = pytest.mark.more


def test_the_papers_config_fetches_converts_and_refuses_other_weights_by_name(tmp_path):
    wanted = "results/paper/corpus/corpus.safetensors"
    refused, done, asked, _ = rehearse(tmp_path, TINY, sentences=40, targets=("--", wanted))
    assert refused.returncode
    said = refused.stdout + refused.stderr
    assert "this is not the known adaptive_lm_wiki103.v2" in said, said
    assert "parameters" in said and "expected 246,933,504 (G1)" in said
    assert done.returncode == 0, done.stderr[-4000:]
    project = tmp_path / "project"
    assert json.loads((project / "results/paper/model/info.json").read_text())["scope"] == "surrogate"
    assert (project / wanted).is_file()
    assert not any((project / "data/downloads").iterdir())
    assert {path for path, _ in asked} == {
        "/0/research.metamind.io/wikitext/wikitext-103-v1.zip",
        "/1/wikitext-103-v1.zip",
        "/2/fairseq/models/lm/adaptive_lm_wiki103.v2.tar.bz2",
    }


@pytest.mark.long
@pytest.mark.parametrize("style", ["legacy", "fused"])
def test_the_paper_run_at_full_size_from_download_to_report(tmp_path, style):
    refused, done, _, _ = rehearse(tmp_path, FULL, style)
    assert refused.returncode and "this is not adaptive_lm_wiki103.v2" in refused.stdout + refused.stderr
    assert done.returncode == 0, done.stderr[-4000:]
    results = tmp_path / "project" / "results" / "paper"
    info = json.loads((results / "model" / "info.json").read_text())
    assert (info["parameters"], info["vocab"], info["scope"]) == (246_933_504, 267_744, "surrogate")
    assert (results / "report" / "report.html").is_file()
