"""A step's digest changes with the code that it imports, and with nothing else."""

import shutil
from contextlib import ExitStack, contextmanager

import pytest

from ff_memories import declaration
from ff_memories.workflow import code_digest
from ff_memories.workflow.code_digest import PACKAGE, declarations, digest

LINE = "\nimport", "\nX = 1\nimport"  # one more in a module
CACHED = (digest, declarations, code_digest._modules, code_digest._module, code_digest._data)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package, of which digests are taken."""
    copy = tmp_path_factory.mktemp("copy") / "ff_memories"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code_digest.PACKAGE = copy
    yield copy
    code_digest.PACKAGE = PACKAGE
    clear()


@pytest.fixture(scope="module")
def before(package):
    return due()


def clear():
    for function in CACHED:
        function.cache_clear()


def due():
    """Return the digests of all steps and of all tables' declarations."""
    clear()
    return {name: digest(name) for name in declaration.names()} | {f"table {k}": v for k, v in declarations().items()}


@contextmanager
def edited(package, file, old, new):
    path = package / file
    text = path.read_text(encoding="utf-8")
    assert old in text, file
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    yield
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "file, old, new",
    [
        ("paper/keys/triggers.py", "HITS = 4096  #", "HITS = 4096  # a power of two:"),
        ("paper/values/values.py", '    """Return', '    """Make and return'),
        ("config/sections.py", "number of triggers per key (t)", "how many triggers a key has (t)"),
        ("config/sections.py", "\nfrom", "\nX = 1\nfrom"),
        ("tables/results.py", "every sentence of the corpus", "each sentence of the corpus"),
        ("commands/plan.py", "import argparse", "import argparse\nimport os"),
    ],
)  # fmt: skip
def test_what_no_result_depends_on_makes_nothing_due(package, before, file, old, new):
    with edited(package, file, old, new):
        assert due() == before


@pytest.mark.parametrize(
    "file, old, new, some, others",
    [
        ("paper/keys/mutations.py", *LINE, {"mutations"}, {"values", "claims", "join", "report"}),
        ("model/decoder.py", *LINE, {"triggers", "values", "interventions"}, {"claims", "join"}),
        ("figures/charts.py", *LINE, {"figures"}, {"claims", "mutations", "excerpts"}),
        ("paper/values/claims.toml", "\n", "\n[[later]]\n", {"claims", "baselines"}, {"values", "triggers"}),
        ("paper/keys/figures.toml", "\n", "\n[later]\n", {"figures", "report"}, {"mutations", "claims"}),
        ("report/templates/style.css", "{", "{ ", {"report"}, {"claims", "composition"}),
        ("report/gallery/static/app.js", "\n", "\n\n", {"gallery"}, {"figures", "report", "excerpts"}),
        ("tables/gallery.py", "HISTOGRAM_BINS = 20", "HISTOGRAM_BINS = 40", {"gallery-tables"}, {"table histogram"}),
    ],
)  # fmt: skip
def test_an_edit_makes_due_the_steps_that_import_its_module(package, before, file, old, new, some, others):
    with edited(package, file, old, new):
        after = due()
    changed = {name for name in after if after[name] != before[name]}
    assert some <= changed and not others & changed, changed


def test_no_measurement_depends_on_how_claims_are_judged_or_drawn(package, before):
    late = [path for room in ("judge", "report", "figures") for path in (package / room).rglob("*.py")]
    late += [path for name in ("claims", "measures", "figures") for path in package.glob(f"paper/*/{name}.py")]
    assert len(late) > 30
    with ExitStack() as stack:
        for path in late:
            text = path.read_text(encoding="utf-8")
            stack.callback(path.write_text, text, encoding="utf-8")
            path.write_text(f"{text}\nX = 1\n", encoding="utf-8")
        after = due()
    steps = {"model", "corpus", "trigger-shard", "triggers", "mutations", "values", "composition", "interventions"}
    assert not [name for name in steps if after[name] != before[name]]
