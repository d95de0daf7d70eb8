"""Take docs/pictures/trace.webp, a picture of the page that `ff-memories trace` writes for the demo.

It needs the demo's results and a browser (Debian's packages chromium and chromium-driver). docs/data/trace.json keeps
what the picture shows: the text, and the digest of the model.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import ROOT

from ff_memories.base.files import write_whole

sys.path.insert(0, str(ROOT / "tests" / "tools" / "servers"))
import browsing

MODEL = Path("results/demo/model/model.safetensors")
KEPT, PICTURE = Path("docs/data/trace.json"), Path("docs/pictures/trace.webp")
TEXT, LAYERS, CELL = "the graph has no edges .", (1, 4, 8, 12, 16), (4, 16)  # the cell: position and layer
WIDTH, HEIGHT = 1200, 900
END = "return document.querySelector('details').getBoundingClientRect().top - 8"


def shot(page: Path, scratch: Path) -> bytes:
    """Return a picture of a trace's page with one cell open, without the notes below it."""
    with browsing.browser(scratch, WIDTH, HEIGHT) as browser:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(f"{page.as_uri()}#/{CELL[0]}/{CELL[1]}")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": browser.execute_script(END), "scale": 1}
        how = {"format": "webp", "quality": 60, "clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"])


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "trace.html"
        shown = ["--layer", *map(str, LAYERS), "--top", "2", "--out", str(page)]
        subprocess.run([Path(sys.executable).with_name("ff-memories"), "trace", TEXT, *shown], cwd=ROOT, check=True)
        picture = shot(page, Path(scratch))
    (ROOT / PICTURE).write_bytes(picture)
    digest = hashlib.md5((ROOT / MODEL).read_bytes(), usedforsecurity=False).hexdigest()
    write_whole(ROOT / KEPT, json.dumps({"text": TEXT, "model": digest}, indent=1) + "\n")


if __name__ == "__main__":
    main()
