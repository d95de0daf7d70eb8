"""The site: its navigation lists every page, it builds without a warning, and reading it needs no network."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from running import ROOT

NEEDS = "the site's tools are not installed: pip install -c workflow/envs/constraints.txt -e '.[docs]'"


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without making the Python objects that it names."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
CONFIG = yaml.load((ROOT / "docs" / "tools" / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def pages(nav):
    """Yield the pages of a navigation, in order."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from pages([below] if isinstance(below, str) else below)


def test_the_navigation_lists_every_page_once(website):
    outside = {*website.ELSEWHERE.values(), website.EXAMPLE}
    listed = list(pages(CONFIG["nav"]))
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.name for page in (ROOT / "docs").glob("*.md")} | outside


@pytest.fixture
def website():
    return pytest.importorskip("website", reason=NEEDS)


def test_the_live_example_quotes_text_only_where_it_may(website, tmp_path):
    run = tmp_path / "demo"
    assert "without a finished demo run" in website.example(run, True)
    assert not list(website.example_files(run, True))
    for file in ("figures/figure2.svg", "figures/figure2.html", "report/report.html", "gallery/data/keys-1.js"):
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text("x")
    (run / "summary.md").write_text("# demo\n\nAll: [report](report/report.html).\n")
    (tmp_path / "atlas").mkdir()
    (tmp_path / "atlas" / "atlas.html").write_text("x")
    shown, files = website.example(run, True), {name for name, _ in website.example_files(run, True)}
    assert 'href="example/report/report.html"' in shown and "## demo" in shown
    assert {"example/gallery/data/keys-1.js", "example/licences/numpy.txt"} <= files
    assert set(re.findall(r'href="(example/licences[^"]*)"', shown)) <= files
    shown, files = website.example(run, False), {name for name, _ in website.example_files(run, False)}
    assert "All: report." in shown and files == {"example/figures/figure2.svg", "example/atlas/atlas.html"}
    assert 'href="example/atlas/atlas.html"' in shown and "training-steps" not in shown


def test_the_findings_end_with_the_ledgers_table(website):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="findings.md"))
    said = website.on_page_markdown("# What the models show\n", page, SimpleNamespace(repo_url=None), [])
    rows = website.read_rows(ROOT / website.findings.LEDGER)
    assert said.count("\n| ") == 1 + len(rows) and said.rstrip().endswith(f"| {rows[-1]['group']} |")
    again = next(row for row in website.read_rows(ROOT / "docs/data/trainings.csv") if row["claim"] == "K1")
    ends = " to ".join(f"{100 * float(again[end]):.3g}".replace("-", "−") for end in ("lowest", "highest"))
    assert f"| {ends} |" in said


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("mkdocs", reason=NEEDS)
    site = tmp_path_factory.mktemp("built") / "site"
    config = ["--config-file", "docs/tools/mkdocs.yml", "--site-dir", str(site)]
    command = [sys.executable, "-m", "mkdocs", "build", *config, "--strict", "--quiet"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1", "TEXT": "no"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


@pytest.mark.more
def test_it_builds_without_a_warning_and_needs_no_network(built):
    assert not (built / "example" / "gallery").exists()
    for page in built.glob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]*)"', page.read_text(encoding="utf-8"))
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="([^"]*)"', page.read_text("utf-8"))
        assert not [address for address in loaded if "//" in address], page.name
    assert (built / "search" / "search_index.js").stat().st_size > 10_000
    assert "paper.html" in (built / "words.html").read_text(encoding="utf-8")
    assert "<math" in (built / "paper.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_search_works_from_files(built, tmp_path):
    browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)
    with browsing.browser(tmp_path) as driver:
        driver.get((built / "index.html").as_uri())
        driver.execute_script("document.querySelector('[data-md-component=search-query]').focus()")
        driver.switch_to.active_element.send_keys("tie")
        found = lambda: driver.execute_script(
            "return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"
        )
        assert any("/paper.html" in link for link in browsing.until(found))
        assert not browsing.console(driver)


def test_every_page_of_an_earlier_site_forwards_to_a_page(website):
    now = {page.removesuffix(".md") for page in pages(CONFIG["nav"])}
    assert set(website.MOVED.values()) <= now and not set(website.MOVED) & now
