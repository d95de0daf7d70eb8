"""The tutorial runs from its first cell to its last, and shows what its text says."""

import json
import re

import notebook
import pytest
import torch
from running import ROOT

PATH = ROOT / "docs" / "tutorial.ipynb"
SECOND = ROOT / "docs" / "tutorial-transformers.ipynb"
CELLS = notebook.cells(PATH)


def run(cells, model, folder):
    """Return the outputs of code cells in an empty folder, which is no clone."""
    if not (ROOT / model).exists():
        pytest.skip("the demo's model is not here: make models")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a few small products: threads that wait for a core cost more than they bring
    try:
        return [o for c, o in zip(cells, notebook.run(cells, folder), strict=True) if c.kind == "code"]
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return run(CELLS, "data/demo/model.pt", tmp_path_factory.mktemp("empty"))


@pytest.mark.parametrize("path, cells", [(PATH, 10), (SECOND, 6)])
def test_it_is_kept_without_outputs(path, cells):
    kept = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(kept) == cells
    assert not [cell for cell in kept if cell["outputs"] or cell["execution_count"]]


def test_the_chapter_on_a_model_of_transformers_shows_what_its_text_says(tmp_path):
    model, text, triggers, promoted, agreement, layers = run(
        notebook.cells(SECOND), "data/demo-llama/model.safetensors", tmp_path
    )
    assert "8 layers with 344 keys each, and 2 signs" in model.printed and "sentences" in text.printed
    assert triggers.html.count("&quot;If ") > 5
    assert re.search(r"<td>0</td><td>&quot;␣is&quot;</td>", promoted.html)
    some, total = map(int, re.search(r"(\d+) of (\d+)", agreement.printed).groups())
    assert total / 3 < some < total
    assert layers.html.count("<tr>") > 8 and "residual_top" in layers.html


def test_the_key_fires_on_can_loses_most_without_it_and_its_value_promotes_what_follows(outputs):
    assert all(output.printed or output.html for output in outputs)
    assert not re.search("Error|Warning", "".join(output.printed for output in outputs))
    triggers, changes, promoted, agreement = outputs[3].html, outputs[5].html, outputs[6].html, outputs[7].printed
    assert triggers.count("can&quot;") > 5
    first, last = (float(cell) for cell in re.findall(r"<td>(-?[\d.]+)</td>", changes))
    assert last < -0.9 < first
    assert re.search(r"<td>0</td><td>&quot;be&quot;</td>", promoted)
    of_key, of_layer = (int(some) / int(total) for some, total in re.findall(r"(\d+) of (\d+)", agreement))
    assert of_key > 10 * of_layer, "the key is no exception"


def test_a_page_has_the_code_and_beside_it_what_it_shows():
    cells = [notebook.Cell("markdown", "# A"), notebook.Cell("code", "print(1)\n2"), notebook.Cell("code", "x = 3")]
    assert notebook.page(cells, list(notebook.run(cells, ROOT))) == (
        "# A\n\n```python\nprint(1)\n2\n```\n\n```text\n1\n2\n```\n\n```python\nx = 3\n```\n"
    )
    assert "text" not in notebook.page(cells, [])
