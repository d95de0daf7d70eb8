"""Test figures in a real browser: nothing is clipped, no text overlaps, and a figure's own page fills its window."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from drawings import SECTIONS, chosen, looking, synthetic

from ff_memories.config import Settings
from ff_memories.figures import draw, render
from ff_memories.figures.registry import DRAWN, FIGURES
from ff_memories.report.html import figure_page

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)

pytestmark = pytest.mark.browser
FAULTS = """
const svg = document.querySelector("svg"), whole = svg.getBoundingClientRect(), faults = [];
const all = [...svg.querySelectorAll("text, .role-legend-symbol path")].filter((t) => getComputedStyle(t).opacity > 0);
const seen = all.map((t) => [t.textContent || "a symbol", t.getBoundingClientRect()]).filter(([, b]) => b.width);
const within = (b) => b.left > whole.left - 0.5 && b.right < whole.right + 0.5;
for (const [name, b] of seen)
  if (!within(b) || b.top < whole.top - 0.5 || b.bottom > whole.bottom + 0.5) faults.push(`cut off: ${name}`);
seen.forEach(([one, a], i) => seen.slice(i + 1).forEach(([other, b]) => {
  const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (wide > 0.5 && high > 1) faults.push(`${one} over ${other}`);
}));
return [seen.length, faults];
"""
LOOKS: dict[str, dict[str, Any]] = {
    "a surrogate": {}, "the paper's own": {"surrogate": False}, "no paper": {"paper_values": False},
    "1 layer": {"layers": 1}, "96 layers": {"layers": 96}, "narrow": {"width": 160}, "last tokens": {"target": "last"},
    "nothing": {"empty": True},
}  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browsing.browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def drawn(figure: str, target: str = "next", empty: bool = False, **look) -> dict:
    """Return a figure's specification."""
    context = replace(looking(figure, **look), target=target)
    frames = {name: frame.clear() if empty else frame for name, frame in synthetic(context.layers).items()}
    beside = ("same_sample", "untrained-1") if DRAWN[figure].untrained else ()
    models = {name: chosen(figure, frames) for name in beside}
    return render.spec(draw.chart(draw.data(chosen(figure, frames), Settings(SECTIONS), context, models), context))


def faults(driver, spec: dict, figure: str, folder) -> list[str]:
    """Return what is clipped or overlaps in the static figure, as a browser renders it."""
    page = folder / "it.html"
    page.write_text(f"<!DOCTYPE html><body>{render.carried(render.svg(spec, figure))}", encoding="utf-8")
    driver.get(page.as_uri())
    driver.execute_async_script("document.fonts.ready.then(arguments[0])")
    assert driver.execute_script("return [...document.fonts].map((f) => f.status)") == ["loaded"]
    count, found = driver.execute_script(FAULTS)
    assert count > 3
    return found


@pytest.mark.parametrize("figure, look", list(product(FIGURES, LOOKS)))
def test_no_words_are_cut_off_or_lie_over_others(driver, tmp_path, figure, look):
    assert faults(driver, drawn(figure, **LOOKS[look]), figure, tmp_path) == []


def test_a_fault_is_found(driver, tmp_path):
    spec = drawn("figure11")
    spec["title"]["text"] = ["a title that is far too long for its figure, " * 5]
    assert any(fault.startswith("cut off: a title") for fault in faults(driver, spec, "figure11", tmp_path))


@pytest.mark.parametrize("figure", ["figure2", "figure6", "figure9"])
def test_a_figures_own_page_fills_its_window(driver, tmp_path, figure):
    page = tmp_path / f"{figure}.html"
    page.write_text(figure_page(figure, drawn(figure)), encoding="utf-8")
    driver.get(page.as_uri())
    browsing.until(lambda: driver.execute_script("return document.querySelector('#figure svg[role=img]') !== null"))
    seen = driver.execute_script(
        "const b = document.querySelector('#figure svg').getBoundingClientRect();"
        "return {width: b.width, height: b.height, window: innerWidth, tall: innerHeight,"
        " out: document.documentElement.scrollWidth > document.documentElement.clientWidth}"
    )
    assert seen["width"] > 0.85 * seen["window"] and seen["height"] < seen["tall"] and not seen["out"]
    assert not browsing.console(driver) and browsing.violations(driver) == []
    assert driver.execute_script(FAULTS)[1] == []
