"""Test the report in a real browser: its figures become interactive, the console is clean, and axe finds no fault."""

import shutil

import pytest

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)

pytestmark = pytest.mark.browser
UNFOLDED = "for (const folded of document.querySelectorAll('details:has(figure)')) folded.open = true"
RENDERED = "return document.querySelectorAll('figure[data-live]').length"


@pytest.fixture(scope="module")
def report(planted_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("opened")
    shutil.copytree(planted_run / "results/planted", folder / "run")
    return folder / "run/report/report.html"


@pytest.fixture
def driver(tmp_path):
    with browsing.browser(tmp_path) as opened:
        yield opened


def enliven(driver):
    """Unfold and scroll to every figure, as a reader does, until all are alive; return how many."""
    driver.execute_script(UNFOLDED)
    wanted = driver.execute_script("return document.querySelectorAll('figure[data-spec]').length")

    def alive(place):
        # scrolled to at each look: figures above that come alive may move this one out of sight
        driver.execute_script("document.querySelectorAll('figure[data-spec]')[arguments[0]].scrollIntoView()", place)
        assert not browsing.console(driver)
        return driver.execute_script(RENDERED) > place

    for place in range(wanted):
        browsing.until(lambda place=place: alive(place), 60)
    return wanted


def test_every_figure_comes_alive_within_a_strict_policy(report, driver):
    driver.get(report.as_uri())
    policy = driver.execute_script("return document.querySelector('meta[http-equiv]').content")
    assert "unsafe-eval" not in policy and "default-src 'none'" in policy
    assert enliven(driver) == 13 and not browsing.console(driver)
    widths = driver.execute_script("return [...document.querySelectorAll('figure svg')].map((f) => f.clientWidth)")
    assert min(widths) > 400
    hatched = "return document.querySelectorAll('figure[data-spec=figure11-spec] [fill^=url]').length"
    assert driver.execute_script(hatched) > 0


def test_a_mark_tells_its_numbers_and_leads_to_its_keys(report, driver):
    driver.get(report.as_uri())
    enliven(driver)
    mark = driver.execute_script(
        "const f = document.querySelector('figure[data-spec=figure7-spec]'); f.scrollIntoView();"
        "const bars = f.querySelectorAll('.mark-rect path'); return bars[0]"
    )
    driver.execute_script(
        "const b = arguments[0].getBoundingClientRect(), at = {bubbles: true, clientX: b.x + b.width / 2,"
        " clientY: b.y + b.height / 2}; for (const k of ['pointerover', 'pointermove', 'mouseover', 'mousemove'])"
        " arguments[0].dispatchEvent(new PointerEvent(k, at))",
        mark,
    )
    tip = "return document.querySelector('#vg-tooltip-element.visible')?.innerText"
    assert "median" in browsing.until(lambda: driver.execute_script(tip))
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", mark)
    browsing.until(lambda: "/gallery/index.html#/?layer=" in driver.current_url)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("small", [False, True])
def test_axe_finds_no_fault_and_nothing_sticks_out(report, driver, scheme, small):
    browsing.media(driver, prefers_color_scheme=scheme)
    if small:
        browsing.phone(driver)
    driver.get(report.as_uri())
    enliven(driver)
    assert browsing.violations(driver) == [] and not browsing.console(driver)
    assert driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_link_opens_what_is_folded(report, driver):
    shown = "return document.getElementById(arguments[0]).checkVisibility({contentVisibilityAuto: true})"
    driver.get(report.as_uri())
    for place in ("K24", "methods", "figure3-provenance", "table2"):
        assert not driver.execute_script(shown, place)
        driver.execute_script("location.hash = arguments[0]", place)
        browsing.until(lambda: driver.execute_script(shown, place))  # noqa: B023
    driver.get(f"{report.as_uri()}?fresh#K30")
    browsing.until(lambda: driver.execute_script(shown, "K30"))
