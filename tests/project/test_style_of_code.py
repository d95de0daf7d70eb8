"""The rules of docs/style.md that a machine can check, on docstrings, messages and the pages that follow from them."""

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from prose import DOCS, avoided, read
from running import ROOT

MODULES = sorted((ROOT / "src" / "ff_memories").rglob("*.py"))
GENERATED = [*(DOCS / name for name in ("commands.md", "deviations.md", "steps.md")), ROOT / "config" / "README.md"]
# A function's docstring opens with what it does, in the imperative; these words open a noun or a clause.
NO_VERB = re.compile(r"(?:The|An?|What|Whose|Where|Which|Whether|Who|How|When|If|Each|Every|All|One|This|It|Its)\b")


def named(module: Path) -> str:
    return str(module.relative_to(ROOT / "src" / "ff_memories"))


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield (node, docstring) of the module, its classes and its functions."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield node, text


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of errors that users see; what a message inserts becomes ``…``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "UserError":
            for argument in node.args:
                yield said(argument)


def said(node: ast.AST) -> str:
    """Return the literal text of an expression: a string, an f-string, or some of them put together."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return " ".join(filter(None, map(said, ast.iter_child_nodes(node))))


def is_verbless(node: ast.AST, text: str) -> bool:
    """Say whether a public function's docstring opens with a noun or a clause. A property may name what it is."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return False
    marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
    return not marks & {"property", "cached_property"} and bool(NO_VERB.match(text))


def faults(source: str) -> list[str]:
    """Return what the style page says against a module's docstrings and messages."""
    tree, found = ast.parse(source), []
    for node, text in docstrings(tree):
        where = getattr(node, "name", "module")
        found += [f"{where}: {phrase}" for phrase in avoided(text)]
        if is_verbless(node, text):
            found.append(f"{where} opens with {text.split()[0]!r}")
    return found + [f"message {text[:60]!r}: {phrase}" for text in messages(tree) for phrase in avoided(text)]


def test_faults_are_found():
    source = '"""So that."""\ndef f():\n    """What it does."""\n    raise UserError(f"{x} is to be", "in place of")\n'
    assert faults(source) == [
        "module: so that",
        "f opens with 'What'",
        "message '… is to be': is to be",
        "message 'in place of': in place of",
    ]
    assert not faults('class C:\n    """A thing."""\n    @property\n    def n(self):\n        """The number."""\n')


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_docstrings_and_messages_keep_to_the_style_page(module):
    assert not faults(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_a_generated_page_uses_no_phrase_that_the_style_page_avoids(page):
    assert not avoided(read(page))


def test_what_the_compiler_says_is_an_error_in_our_own_code_alone():
    # the first import compiles a package, wherever it is, if the installer left that out
    installed = Path(find_spec("fairseq").origin).parent
    for path in installed.rglob("*.py"):
        compile(path.read_bytes(), path, "exec")
    for path in (MODULES[0], Path(__file__)):
        with pytest.raises(SyntaxError, match="invalid escape sequence"):
            compile(r"'\.'", path, "exec")
