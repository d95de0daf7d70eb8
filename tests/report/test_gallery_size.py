"""Measure a gallery of the paper's size in a real browser: first paint, searches, and the size of its files.

Run it with ``pytest -m long -s tests/report/test_gallery_size.py``; docs/gallery.md has the numbers.
"""

import time

import numpy as np
import pytest
from galleries import build, material

browsing = pytest.importorskip("browsing", reason="needs the extra dev", exc_type=ImportError)

pytestmark = pytest.mark.long

TYPES = 267_000  # as many as the paper's vocabulary
SEARCHES = {
    "a frequent word": ("text", "{0}"),
    "a rare word": ("text", "{rare}"),
    "two words": ("text", "{3} {40}"),
    "two frequent words": ("text", "{0} {1}"),
    "a phrase": ("text", '"{3} {40}"'),
    "a phrase of frequent words": ("text", '"{0} {1}"'),
    "an ending of three words": ("fires", "{0} {1} {2}"),
}
MOST_BYTES, MOST_MS = 1e6, 750  # of the best of three: other processes may slow the machine


def types():
    """Return made-up words, frequent ones shorter: 80 of one syllable, 6,000 of two, 200,000 of three, then of four."""
    rng = np.random.default_rng(5)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    words: dict[str, None] = {}
    for syllables_, until in enumerate((80, 6_000, 200_000, TYPES), 1):
        while len(words) < until:
            for row in rng.integers(0, len(syllables), (until, syllables_)).tolist():
                words["".join(syllables[i] for i in row)] = None
                if len(words) == until:
                    break
    return list(words)


SHOWN = "document.body?.dataset.ready === location.hash && !document.querySelector('main').ariaBusy"
# When a list of another address is there: polled in the page, so that the driver's own time does not count.
FOLLOW = f"""
const [address, done] = arguments, began = performance.now();
location.hash = address;
const look = () => ({SHOWN} ? done(performance.now() - began) : setTimeout(look, 2));
setTimeout(look, 2);
"""


def test_a_gallery_of_the_papers_size_is_quick_and_its_files_are_small(tmp_path):
    words, began = types(), time.monotonic()
    made = material(layers=16, keys=4096, top=25, sentences=400_000, types=words)
    print(f"\nmade up in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    build(tmp_path / "gallery", made)
    print(f"pages written in {time.monotonic() - began:.0f} s", flush=True)
    files = [path for path in (tmp_path / "gallery").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    kinds = {}
    for path in files:
        kind = path.stem.rstrip("0123456789").rstrip("-")
        n, size, most = kinds.get(kind, (0, 0, 0))
        kinds[kind] = n + 1, size + path.stat().st_size, max(most, path.stat().st_size)
    for kind, (n, size, most) in sorted(kinds.items(), key=lambda item: -item[1][1])[:6]:
        print(f"{kind}: {n} files, {size / 1e6:.1f} MB, the largest {most / 1e3:.0f} kB")
    total = sum(path.stat().st_size for path in files)
    print(f"all: {len(files)} files, {total / 1e6:.0f} MB, the largest {largest.stat().st_size / 1e3:.0f} kB")
    counts = np.bincount(made.corpus.tokens, minlength=len(made.words))
    names = {str(i): made.words[t] for i, t in enumerate(np.argsort(-counts)[:50])}
    first, end = made.windows
    held = np.unique(np.concatenate([made.corpus.tokens[a:b] for a, b in zip(first[::50], end[::50], strict=True)]))
    names["rare"] = made.words[held[np.argmin(counts[held])]]
    page = (tmp_path / "gallery" / "index.html").as_uri()
    slow = {}
    with browsing.browser(tmp_path) as driver:
        for _ in range(3):  # the first visit also starts the browser's processes
            driver.get("about:blank")
            driver.get(page)
            browsing.until(lambda: driver.execute_script(f"return {SHOWN}"))
            paint = driver.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
            keys = driver.execute_script("return performance.getEntriesByName('list')[0]?.startTime ?? null")
            print(f"first paint: {paint:.0f} ms; first list: {keys:.0f} ms")
        assert paint < 1000 and keys < 1000
        for what, (kind, query) in SEARCHES.items():
            took = []
            for _ in range(3):
                driver.get("about:blank")
                driver.get(page)  # nothing of the index is loaded
                browsing.until(lambda: driver.execute_script(f"return {SHOWN}"))
                parameters = {kind: query.format(*[names[str(i)] for i in range(50)], **names)}
                address = driver.execute_script("return Address.ofList(arguments[0])", parameters)
                took.append(driver.execute_async_script(FOLLOW, address))
                found = driver.execute_script("return document.querySelector('h1').innerText")
            best, median, _ = sorted(took)
            print(f"{what} ({parameters[kind]}): median {median:.0f} ms, best {best:.0f} ms, {found}", flush=True)
            assert "key" in found
            slow |= {what: best} if best > MOST_MS else {}
        for address in ("#/?sort=rate", "#/?agrees=1", "#/16/1935"):
            print(f"{address}: {driver.execute_async_script(FOLLOW, address):.0f} ms", flush=True)
        assert browsing.console(driver) == []
    assert largest.stat().st_size < MOST_BYTES, largest
    assert not slow
