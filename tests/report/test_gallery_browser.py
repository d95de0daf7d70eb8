"""Test the gallery in a real browser, opened from its file."""

import re

import numpy as np
import polars as pl
import pytest
from galleries import HOSTILE, build, material

from ff_memories.report.gallery.parts import shown

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)

pytestmark = pytest.mark.browser


class Gallery:
    """A gallery in a browser: its address, its content and key presses."""

    def __init__(self, driver, folder, url=None):
        self.driver, self.folder, self.url = driver, folder, url or (folder / "index.html").as_uri()

    def __call__(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def open(self, address=""):
        """Open an address as from outside."""
        self.driver.get("about:blank")
        self.driver.get(self.url + address)
        self.ready()

    def go(self, address):
        """Follow an address within the site."""
        self("location.hash = arguments[0]", address)
        self.ready()

    def ready(self):
        state = "document.body?.dataset.ready === location.hash && !document.querySelector('main').ariaBusy"
        browsing.until(lambda: self(f"return {state}"))

    @property
    def address(self):
        return self("return location.hash")

    @property
    def keys(self):
        """Return the addresses of the listed keys."""
        return self("return [...document.querySelectorAll('table.list th a')].map((a) => a.getAttribute('href'))")

    @property
    def text(self):
        return self("return document.querySelector('main').innerText")

    def count(self):
        return int(
            re.search(r"([\d,]+) keys?", self("return document.querySelector('h1').innerText"))[1].replace(",", "")
        )

    def press(self, key):
        where = "document.activeElement ?? document.body"
        self(f"({where}).dispatchEvent(new KeyboardEvent('keydown', {{key: arguments[0], bubbles: true}}))", key)

    def search(self, kind, words):
        self("document.getElementById('kind').value = arguments[0]", kind)
        self("document.getElementById('words').value = arguments[0]", words)
        before = self.address
        self("document.querySelector('#search button').click()")
        browsing.until(lambda: self.address != before)
        self.ready()


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    made = build(folder / "gallery")
    with browsing.browser(folder) as driver:
        yield made, Gallery(driver, folder / "gallery")


@pytest.fixture
def site(opened):
    made, gallery = opened
    gallery.open()
    gallery.driver.get_log("browser")
    yield made, gallery
    assert browsing.console(gallery.driver) == []
    assert gallery("return document.body.dataset.title").startswith("Surrogate model: ")
    assert "not the paper's" in gallery("return document.querySelector('aside.banner').innerText")


def addresses(frame):
    return {f"#/{layer}/{key}" for layer, key in frame.select("layer", "key").iter_rows()}


def words_of(made):
    """Return every trigger's words with the address of its key."""
    tokens, (first, end) = made.corpus.tokens, made.windows
    rows = made["triggers"].select("layer", "key").iter_rows()
    return [
        (f"#/{layer}/{key}", [made.words[t] for t in tokens[a:b]])
        for (layer, key), a, b in zip(rows, first, end, strict=True)
    ]


def listed(gallery):
    """Return the keys on all pages of the current list."""
    found, address = set(gallery.keys), gallery.address
    for page in range(2, gallery.count() // 50 + 2):
        gallery.go(f"{address}&page={page}")
        found |= set(gallery.keys)
    return found


def counted(made, holds):
    """Return how many triggers of each key have words for which something holds, by ordinal."""
    found = {}
    for (_, own), ordinal in zip(words_of(made), made.ordinals(made["triggers"]).tolist(), strict=True):
        found[ordinal] = found.get(ordinal, 0) + holds(own)
    return {ordinal: n for ordinal, n in found.items() if n}


def test_the_index_of_text_says_what_a_scan_of_all_triggers_says(site):
    made, gallery = site
    rng = np.random.default_rng(3)
    texts = [own for _, own in words_of(made) if len(own) > 8]
    search = "const done = arguments[2]; Words[arguments[0]](arguments[1]).then((found) => done([...found]), done)"
    ask = lambda kind, words: dict(gallery.driver.execute_async_script(search, kind, words))
    same = lambda typed, word: word.lower() == typed if typed == typed.lower() else word == typed
    within = lambda typed, own: any(
        all(map(same, typed, own[i : i + len(typed)])) for i in range(len(own) - len(typed) + 1)
    )
    for n in [1, 2, 2, 3, 4] * 6:
        own = texts[rng.integers(len(texts))]
        at = int(rng.integers(len(own) - n + 1))
        typed = [word if rng.random() < 0.5 else word.lower() for word in own[at : at + n]]
        phrase = counted(made, lambda own, typed=typed: within(typed, own))
        assert ask("text", f'"{" ".join(typed)}"') == phrase != {}
        rng.shuffle(typed)
        everywhere = lambda own, typed=typed: all(any(same(one, word) for word in own) for one in typed)
        assert ask("text", " ".join(typed)) == counted(made, everywhere)
        ends = [word.lower() for word in own[-n:]]
        at_end = lambda own, ends=ends: len(own) >= len(ends) and all(map(same, ends, own[-len(ends) :]))
        assert ask("fires", " ".join(ends)) == counted(made, at_end) != {}
    assert ask("text", '"the qqq"') == ask("text", "qqq") == ask("text", '""') == {}


def test_filters_of_an_address_are_those_of_the_tables(site):
    made, gallery = site
    values = made["values"].join(made["triggers"].filter(rank=1), on=["layer", "key"], how="left", suffix="_t")
    c, p = pl.col("coefficient"), pl.col("top_probability")
    for address, expected in [
        ("#/?agrees=0&layer=1", values.filter(~pl.col("agrees") & (pl.col("layer") == 1))),
        ("#/?agrees=none", values.filter(pl.col("agrees").is_null())),
        ("#/?coefficient=2.5..5", values.filter((c >= 2.5) & (c <= 5))),
        ("#/?probability=0.3..", values.filter(p >= 0.3)),
        ("#/?rank=..10", values.filter(pl.col("next_token_rank") <= 10)),
        ("#/?label=semantic", made["pattern_labels"].filter(pl.col("label") == "semantic")),
        ("#/?disagree=1", made["pattern_labels"].filter(pl.col("annotator") == "ann")),
        ("#/?mutated=1", made["mutations"]),
        ("#/?dead=0&layer=2", made["firing"].filter((pl.col("fired") > 0) & (pl.col("layer") == 2))),
        ("#/?rate=20..40.5", made["firing"].filter(pl.col("fired").is_between(1000, 2025))),
    ]:
        gallery.go(address)
        assert listed(gallery) == addresses(expected), address


def test_lists_are_sorted_as_asked_and_turned_round(site):
    made, gallery = site
    by = made["values"].sort("top_probability", descending=True)
    gallery.go("#/?sort=probability")
    assert gallery.keys[:5] == [f"#/{a}/{b}" for a, b in by.select("layer", "key").head(5).iter_rows()]
    gallery("document.querySelector('.order button').click()")
    gallery.ready()
    assert gallery.address == "#/?sort=-probability"
    assert gallery.keys[0] == "#/{}/{}".format(*by.select("layer", "key").row(-1))
    gallery.go("#/?sort=coefficient&page=3")
    assert gallery.keys[-1] in ("#/1/0", "#/2/0")  # without triggers: last
    gallery.go("#/?layer=1")  # in the default order, by agreement
    agreeing = [key in addresses(made["values"].filter("agrees")) for key in gallery.keys]
    assert agreeing == sorted(agreeing, reverse=True) and len(set(agreeing)) == 2


def test_an_address_leads_to_its_key_and_the_back_button_back(site):
    made, gallery = site
    gallery.go("#/?layer=2&sort=coefficient")
    before = gallery.keys
    gallery("document.querySelectorAll('table.list th a')[3].click()")
    gallery.ready()
    assert gallery.address == before[3]
    gallery.driver.back()
    gallery.ready()
    assert gallery.address == "#/?layer=2&sort=coefficient" and gallery.keys == before
    gallery.open("#/2/1")
    assert gallery("return document.querySelector('h1').innerText") == "Layer 2, key 1"
    rows = made["triggers"].filter((pl.col("layer") == 2) & (pl.col("key") == 1))
    assert gallery("return document.querySelectorAll('#triggers + .triggers > li').length") == len(rows)
    ends = "[...document.querySelector('.triggers li').querySelectorAll('.last, .next bdi')]"
    last, following = gallery(f"return {ends}.map((e) => e.innerText)")
    at = made.windows[1][made.bounds[made.keys + 1]]
    assert last == made.words[made.corpus.tokens[at - 1]] and following == made.words[made.corpus.tokens[at]]
    assert gallery("return document.querySelectorAll('.prefix .tint').length") > 3
    assert "semantic ann" in gallery.text and "shallow proxy" in gallery.text and "without last −50 %" in gallery.text


@pytest.mark.parametrize("address, says", [
    ("#/1/999", "Not found"), ("#/nonsense", "Not found"), ("#/?layer=x&foo=1&sort=colour", "not recognised: foo=1"),
    ("#/?page=99&layer=1", "Page 2 of 2"), ("#/?layer=2..1", "not recognised: layer=2..1"),
])  # fmt: skip
def test_an_address_that_leads_nowhere_says_so(site, address, says):
    _, gallery = site
    gallery.go(address)
    assert says in gallery.text


def test_hostile_tokens_are_text_and_nothing_more(site):
    _, gallery = site
    for key in range(1, 12):
        gallery.go(f"#/1/{key}")
        assert gallery("return document.querySelectorAll('main img, main script, main b bdi b').length") == 0
    assert gallery("return document.title").startswith("Layer 1, key 11")
    gallery.search("fires", shown(HOSTILE[1]))
    assert shown(HOSTILE[1]) in gallery.text
    gallery.go("#/?" + "text=" + "%3Cimg+src%3Dx%3E")
    assert gallery("return document.querySelectorAll('main img').length") == 0 and "<img src=x>" in gallery.text
    gallery.go("#/2/1")
    assert "<b>a" in gallery.text  # a description that somebody wrote
    assert "\u202e" not in gallery.text.replace("<b>" + HOSTILE[2], "")
    wide = gallery("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["desktop", "phone"])
def test_axe_finds_nothing_at_fault(opened, scheme, narrow):
    _, gallery = opened
    if narrow:
        browsing.phone(gallery.driver)
    browsing.media(gallery.driver, prefers_color_scheme=scheme)
    try:
        for address in ("", "#/?layer=2&agrees=0&label=any&foo=1", "#/2/1", "#/1/0", "#/1/2", "#/nonsense"):
            gallery.open(address)
            gallery("document.querySelectorAll('main details').forEach((element) => (element.open = true))")
            assert browsing.violations(gallery.driver) == [], address
            wide = gallery("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, address
        gallery.press("?")
        assert browsing.violations(gallery.driver) == []
    finally:
        gallery.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browsing.media(gallery.driver)


def test_negative_coefficients_are_named_by_key_and_mark_everywhere(tmp_path):
    both = {"scope": "model", "signs": 2, "neurons": 35}
    build(tmp_path / "gallery", material(neurons=35), card=both)
    with browsing.browser(tmp_path) as driver:
        site = Gallery(driver, tmp_path / "gallery")
        site.open("#/2/12-")
        assert "Layer 2, key 12, negative coefficients" in site.text and "the value is −v" in site.text
        assert "47" not in site("return document.querySelector('h1').innerText + document.title")
        assert "Not the paper's model" in site("return document.body.innerText")
        assert site("return Sheet.key(Key.shown).split('\\n')[1]").startswith("made-up,model,2,12,-1,1,")
        site.go("#/?layer=2&sort=-address")
        assert site.keys[0] == "#/2/34-" and "2 / 34−" in site.text.replace("\n", " ")
        site.search("fires", "1/3-")
        assert site.address == "#/1/3-" and "key 3, negative coefficients" in site.text
        site("[...document.querySelectorAll('main p.quiet a')].find((a) => /Positive/.test(a.innerText)).click()")
        browsing.until(lambda: site.address == "#/1/3")
        site.open("#/1/35")
        assert "keys 0 to 34" in site.text
