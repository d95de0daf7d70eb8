"""Test the page of a trace in a real browser, opened from its file and by keyboard alone."""

import factories
import pytest
from galleries import HOSTILE

from ff_memories.api import load_model, trace
from ff_memories.report.trace import page

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)

pytestmark = pytest.mark.browser

LAYERS = 3


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    hostile = [word for word in HOSTILE if word.split() == [word]]
    types = [*hostile, *factories.words(40)]
    factories.write_checkpoint(folder / "model.pt", types, scale=2.0)
    factories.write_dictionary(folder / "dict.txt", types)
    model = load_model(folder / "model.pt", folder / "dict.txt")
    found = trace(model, " ".join(["the", *hostile, "<i>zzz</i>"]))
    for memory in found["memories"]:  # as with a run: some are in its gallery
        number, sign = memory["key"] % 3, -1 if memory["key"] % 5 == 0 else 1
        memory["address"] = None if number == 0 else f"#/{memory['layer']}/{memory['key']}{'-' if sign < 0 else ''}"
    about = {"run": "made-up", "scope": "surrogate", "gallery": str(folder / "results" / "gallery" / "index.html")}
    html = page(found | about, folder)
    (folder / "page.html").write_text(html, encoding="utf-8")
    with browsing.browser(folder) as driver:
        yield found, driver, (folder / "page.html").as_uri()


@pytest.fixture
def site(opened):
    found, driver, address = opened

    def go(hash_=""):
        driver.get("about:blank")
        driver.get(address + hash_)
        browsing.until(lambda: driver.execute_script("return document.body.dataset.ready"))

    go()
    yield found, driver, go
    assert browsing.console(driver) == []
    assert driver.title == "Surrogate model: A text through the memories of run made-up"


def press(driver, *keys):
    """Press keys, as a keyboard does, where the focus is."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(driver).send_keys(*(getattr(Keys, key) for key in keys)).perform()


def focus(driver):
    """Return the position and the layer's column of the cell in focus."""
    script = "const e = document.activeElement; return [e.parentNode.sectionRowIndex, e.cellIndex - 1]"
    return tuple(driver.execute_script(script))


def details(driver):
    return driver.execute_script("return document.getElementById('details').innerText")


def test_the_grid_is_walked_and_its_cells_open_by_keyboard(site):
    found, driver, _ = site
    last = len(found["positions"]) - 1
    press(driver, "TAB")
    assert focus(driver) == (last, LAYERS - 1)
    press(driver, "ARROW_DOWN", "ARROW_RIGHT")
    assert focus(driver) == (last, LAYERS - 1)
    press(driver, "ARROW_UP", "ARROW_LEFT")
    assert focus(driver) == (last - 1, LAYERS - 2)
    press(driver, "HOME")
    assert focus(driver) == (last - 1, 0)
    press(driver, "PAGE_UP", "PAGE_UP")
    assert focus(driver) == (0, 0)
    press(driver, "ARROW_DOWN", "END")
    assert focus(driver) == (1, LAYERS - 1)
    press(driver, "ENTER")
    assert driver.execute_script("return document.activeElement.id") == "where"
    cell = found["cells"][1 * LAYERS + LAYERS - 1]
    assert "Layer 3, after the position 1" in details(driver).replace("\n", " ")
    assert cell["kind"] in details(driver)
    assert driver.execute_script("return document.querySelectorAll('.memories li').length") == len(cell["memories"])
    assert driver.execute_script("return document.querySelectorAll('[aria-selected]').length") == 1
    press(driver, "ESCAPE")
    assert focus(driver) == (1, LAYERS - 1)


def test_details_say_what_the_trace_says(site):
    found, driver, go = site
    own = {(m["layer"], m["key"]): m for m in found["memories"]}
    each = lambda selector, what: driver.execute_script(
        f"return [...document.querySelectorAll(arguments[0])].map((e) => {what})", selector
    )
    for cell in found["cells"][::7]:
        go(f"#/{cell['position']}/{cell['layer']}")
        tops = [top["probability"] for part in ("residual", "update", "output") for top in cell[part]]
        assert each(".three .number", "Number(e.innerText)") == pytest.approx(tops, abs=6e-4)
        assert each(".memories .name", "e.innerText") == [str(m["key"]) for m in cell["memories"]]
        held = [own[cell["layer"], m["key"]] for m in cell["memories"]]
        links = [f"results/gallery/index.html{memory['address']}" for memory in held if memory["address"]]
        assert each(".memories a", "e.getAttribute('href')") == links


def test_hostile_tokens_stay_text(site):
    found, driver, go = site
    for position in range(len(found["positions"])):
        go(f"#/{position}/1")
        assert driver.execute_script("return document.querySelector('main :is(script, img, i i, bdi *)')") is None
    assert "<i>zzz</i>" in driver.execute_script("return document.querySelector('main .banner').innerText")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_accessible_and_fits(site, scheme, width):
    _, driver, go = site
    try:
        browsing.media(driver, prefers_color_scheme=scheme)
        browsing.phone(driver, width)
        go("#/3/2")
        assert browsing.violations(driver) == []
        driver.execute_script("document.querySelectorAll('.memories a').forEach((a) => a.removeAttribute('href'))")
        assert browsing.violations(driver) == []  # as without a gallery
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browsing.media(driver)
