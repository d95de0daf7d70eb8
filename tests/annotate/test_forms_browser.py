"""Test the forms in a real browser: keyboard use, automatic saving, and exports that the scoring reads."""

import pytest

from ff_memories.annotate import annotation_files
from ff_memories.annotate.annotation_files import Problems
from ff_memories.annotate.distance import Compared
from ff_memories.annotate.study import Item
from ff_memories.steps.annotation_sheets import distance_form, pattern_form

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)
pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=\"document.title='broken'\">"
ITEMS = [Item("key", 1, n, tuple((EVIL, f"w{i}", "end") for i in range(5))) for n in range(3)]
CASES = [Compared(n, ("once", EVIL), f"a{n}", "b", f"c{n}") for n in range(2)]


@pytest.fixture(params=["desktop", "phone"])
def browser(request, tmp_path):
    with browsing.browser(tmp_path) as driver:
        if request.param == "phone":
            browsing.phone(driver)
        yield driver
        assert not browsing.console(driver)
        assert "broken" not in driver.title
        for scheme in ("light", "dark"):
            browsing.media(driver, prefers_color_scheme=scheme)
            assert browsing.violations(driver) == []


def press(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def text(browser, name):
    return browser.find_element("id", name).text


def exported(browser, file):
    press(browser, "c")
    browsing.until(lambda: file.exists() and file.stat().st_size)
    problems = Problems()
    records, judged = annotation_files.read_all([file], "mine", problems)
    assert not problems
    return records, judged


def test_patterns_by_keyboard(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    page = tmp_path / "patterns.html"
    page.write_text(pattern_form("mine", ITEMS), encoding="utf-8")
    browser.get(page.as_uri())
    press(browser, Keys.ENTER)
    assert text(browser, "message") == "Add a pattern or choose “no pattern”."
    press(browser, "n", '=say "end", s', Keys.ENTER, "s", "1", Keys.ARROW_DOWN, "1", Keys.ENTER)
    assert "at least 3 prefixes; 2 so far" in text(browser, "message")
    press(browser, "j", " ", Keys.ENTER)
    assert text(browser, "place") == "2 / 3" and text(browser, "done") == "1 of 3 done"
    press(browser, "0", Keys.ENTER)
    browser.refresh()  # answers persist
    assert text(browser, "place") == "3 / 3" and text(browser, "done") == "2 of 3 done"
    press(browser, "n", "unfinished", Keys.ENTER, "m", "1")
    press(browser, "c")
    assert "Enter your name first" in text(browser, "message")
    press(browser, "Ann", Keys.ENTER, "w", " Lee", Keys.ENTER)
    records, _ = exported(browser, tmp_path / "downloads/Ann_Lee.csv")
    assert "1 unfinished" in text(browser, "message")
    assert [(r.annotator, r.item, r.type, r.description, r.ranks) for r in records] == [
        ("Ann Lee", ITEMS[0].item, "shallow", '=say "end", s', (1, 2, 3)), ("Ann Lee", ITEMS[1].item, "", "", ()),
    ]  # fmt: skip
    assert browser.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_distances_by_keyboard(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    page = tmp_path / "distance.html"
    page.write_text(distance_form("mine", CASES), encoding="utf-8")
    browser.get(page.as_uri())
    browser.find_element("id", "annotator").send_keys("Ann", Keys.ENTER)
    assert text(browser, "prefix") == f"once {EVIL}"
    press(browser, "d", "r")
    assert text(browser, "done") == "2 of 2 done" and text(browser, "message") == "All done. Export your answers."
    _, judged = exported(browser, tmp_path / "downloads/Ann-distance.csv")
    assert [(j.item, j.label) for j in judged] == [(CASES[0].item, "distant"), (CASES[1].item, "related")]
