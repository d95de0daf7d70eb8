"""Hooks of the site (``mkdocs.yml``): pages from outside ``docs/``, links, formulas, tutorial, live example.

``TEXT=no`` in the environment leaves out the demo's text: use it for a site that others will read.
"""

import html
import os
import posixpath
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent)]  # mkdocs takes hooks from their files

import findings  # noqa: E402
import notebook  # noqa: E402
from pages import read_rows  # noqa: E402

from ff_memories.base.files import script  # noqa: E402

PACKAGES = script("docstrings").PACKAGES
ELSEWHERE = {
    "README.md": "readme.md",
    "config/README.md": "config.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "security.md",
    "docs/tutorial.ipynb": "tutorial.md",
    "docs/tutorial-transformers.ipynb": "tutorial-transformers.md",
}
MOVED = {  # pages of earlier sites -> the pages that have their content
    "annotation-study": "annotation",
    "artefacts": "verify",
    "benchmark": "performance",
    "bfloat16": "performance",
    "demo": "index",
    "equality": "verify",
    "faq": "results",
    "faults": "security",
    "forgeries": "verify",
    "functions": "api",
    "gguf": "own-model",
    "gpu": "cluster",
    "paper-run": "cluster",
    "rehearsal": "cluster",
    "released": "exports",
    "start": "index",
    "steps": "commands",
    "style": "contributing",
    "tests": "contributing",
    "trace": "gallery",
    "transformers": "own-model",
    "words": "paper",
}
FORWARD = """\
<!doctype html><title>Moved</title><link rel="canonical" href="{page}.html">
<script>location.replace("{page}.html" + location.hash)</script>
<meta http-equiv="refresh" content="0; url={page}.html"><a href="{page}.html">This page has moved.</a>
"""
EXAMPLE, RUN = "example.md", Path("results/demo")
LEDGER = """
In the table, numbers are rounded, with 95 % intervals. *Judged* has the number that decides, if it is another than the
measured one, and what the claim needs of it; *seen in* counts the random networks that show the claim too; *trained
again* has the lowest and highest number of other trainings.

{}
"""
ATLASES = {"atlas": "the demo's three models", "training-steps": "one model over its training"}  # beside the run
TUTORIALS = {  # page -> the model that its cells load, and how to get it
    "tutorial.md": ("data/demo/model.pt", "make pull"),
    "tutorial-transformers.md": ("data/demo-llama/model.safetensors", "make models"),
}
WITHOUT_TEXT = ("figures/*.svg", "figures/*.png", "figures/*.pdf", "figures/*.csv", "claims.json")
WITH_TEXT = ("figures/*.html", "report/*.*", "tables/*.parquet", "gallery/*.*", "gallery/data/*.js")
LINK = re.compile(r"\[((?:`[^`\n]*`|[^\[\]`])*)\]\(([^)\s]+)\)")
DATASETS = "https://vega.github.io/vega-datasets/"  # what vl-convert puts before a relative link in an SVG


def repository(root: Path) -> str | None:
    """Return the repository's address from CITATION.cff or pyproject.toml, if one of them has it."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = cited.get("repository-code") or project.get("urls", {}).get("Repository")
    return str(found).rstrip("/") if found else None


def relinked(text: str, source: str, address: str | None) -> str:
    """Return a page with its links rewritten for the site.

    Args:
        text: the page.
        source: its file in the repository, the base of relative links.
        address: the repository's address; without one, a link to a file that is not a page becomes plain text.
    """

    def new(link: re.Match[str]) -> str:
        label, target = link.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        end = f"#{anchor}" if anchor else ""
        if there in ELSEWHERE:
            return f"[{label}]({ELSEWHERE[there]}{end})"
        if there.startswith("docs/"):
            return f"[{label}]({there.removeprefix('docs/')}{end})"
        return f"[{label}]({address}/blob/main/{there}{end})" if address else label

    return LINK.sub(new, text)


def formulas(content: str) -> str:
    """Return a page's HTML with its formulas as MathML, which browsers show without a script.

    Raises ``PluginError`` for a formula with a command that the converter leaves as it is.
    """
    pattern = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
    return pattern.sub(lambda found: mathml(html.unescape(found[3]), found[2] == "("), content)


def mathml(formula: str, inline: bool) -> str:
    """Return a formula as MathML."""
    converted = convert(formula.replace(r"\arg\max", r"\operatorname{argmax}"), display="inline" if inline else "block")
    if unknown := re.search(r"\\\w+", converted):
        raise PluginError(f"the site cannot show {unknown[0]} in the formula {formula}: write it in another way")
    return converted


def tutorial(root: Path, page: str = "tutorial.md") -> str:
    """Return a notebook as a page; run its cells if its model is here."""
    cells, (model, get) = notebook.cells((root / "docs" / page).with_suffix(".ipynb")), TUTORIALS[page]
    if (root / model).exists():
        return notebook.page(cells, list(notebook.run(cells, root)))
    title, rest = notebook.page(cells, []).split("\n", 1)
    note = f"This site was built without the demo's model, so you see only the code. Run `{get}` to fetch the model."
    return f'{title}\n\n!!! note "Code only"\n\n    {note}\n{rest}'


def with_text() -> bool:
    """Return whether the live example may show the demo's text."""
    return os.environ.get("TEXT", "yes") != "no"


MISSING = f"""\
# Live example

This site was built without a finished demo run. Run `make demo`, which writes `{RUN}/`; then run `make docs` again.
"""
HEAD = """\
# Live example

This page shows the finished demo run. Its model is a [surrogate](paper.md#surrogate): it is small and was trained on
the documentation of Python packages. No number here is a result of the paper's model.

"""
QUOTED = """\
- <a href="example/report/report.html">Report</a>: the paper's sections with answers, figures and numbers.
- <a href="example/gallery/index.html">Gallery</a>: every key's triggers and its value.

Report and gallery quote documentation strings of four packages under the three-clause BSD licence. The licence allows
that if its notice stays with the text: {licences}. The figures and the summary on this page quote no text.
"""
UNQUOTED = """\
This site leaves out the report and the gallery, because they quote the demo's text. To see them, run `make demo` and
`make docs` on your machine. The figures and the summary on this page quote no text.
"""


def example(run: Path, text: bool) -> str:
    """Return the page of the live example: the demo run's answers and figures, with links to everything else."""
    if not (run / "summary.md").exists():
        return MISSING
    licences = ", ".join(f'<a href="example/licences/{p}.txt">{p} {v}</a>' for p, v in PACKAGES.items())
    parts = [HEAD + (QUOTED.format(licences=licences) if text else UNQUOTED)]
    parts += [
        f'<a href="example/{name}/atlas.html">Atlas: {about}</a>\n'
        for name, about in ATLASES.items()
        if (run.parent / name / "atlas.html").is_file()
    ]
    parts.append("## Figures\n")
    kinds = {"interactive": "html", "numbers": "csv", "PDF": "pdf"} if text else {"numbers": "csv", "PDF": "pdf"}
    numbers = (figure.stem.removeprefix("figure") for figure in run.glob("figures/figure*.svg"))
    for number in sorted(numbers, key=lambda number: (not number.isdecimal(), len(number), number)):  # 2 to 11, b1
        file = f"example/figures/figure{number}"
        links = " · ".join(f'<a href="{file}.{end}">{kind}</a>' for kind, end in kinds.items())
        shown = number.upper()
        parts.append(f"### Figure {shown}\n\n![Figure {shown} of the demo run]({file}.svg)\n\n{links}\n")
    summary = re.sub(r"^#", "##", (run / "summary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    own = r'<a href="example/\2">\1</a>' if text else r"\1"
    return "\n".join([*parts, re.sub(r"\[([^\]]*)\]\((report/[^)]*)\)", own, summary)])


def example_files(run: Path, text: bool) -> Iterator[tuple[str, bytes]]:
    """Yield (path on the site, content) of the live example's files."""
    if not (run / "summary.md").exists():
        return
    for pattern in (*WITHOUT_TEXT, *(WITH_TEXT if text else ())):
        for path in sorted(run.glob(pattern)):
            content = path.read_bytes()
            if path.suffix in (".svg", ".html"):
                content = content.replace(DATASETS.encode(), b"")
            yield f"example/{path.relative_to(run).as_posix()}", content
    for name in ATLASES:
        if (page := run.parent / name / "atlas.html").is_file():
            yield f"example/{name}/atlas.html", page.read_bytes()
    for package in PACKAGES if text else ():
        yield f"example/licences/{package}.txt", licence(metadata.files(package) or []).encode()


def licence(files: Iterable[metadata.PackagePath]) -> str:
    """Return the text of an installed package's licence."""
    found = [f for f in files if "dist-info" in f.parts[0] and re.fullmatch(r"LICEN[CS]E(\.\w+)?", f.name)]
    if not found:
        raise PluginError("a package that the live example quotes has no licence file: run TEXT=no make docs")
    return min(found, key=lambda f: len(f.parts)).read_text(encoding="utf-8")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the repository's address."""
    config.repo_url = repository(ROOT)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside ``docs/``, the tutorial with its outputs, old addresses, and the live example."""
    pages = {
        name: (ROOT / source).read_text(encoding="utf-8")
        for source, name in ELSEWHERE.items()
        if source.endswith(".md")
    }
    pages |= {page: tutorial(ROOT, page) for page in TUTORIALS}
    pages[EXAMPLE] = example(ROOT / RUN, with_text())
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    for old, new in MOVED.items():
        files.append(File.generated(config, f"{old}.html", content=FORWARD.format(page=new)))
    for name, raw in example_files(ROOT / RUN, with_text()):
        files.append(File.generated(config, name, content=raw))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the site, and indent nested lists as this Markdown dialect needs them."""
    name = page.file.src_uri
    if name in (*TUTORIALS, EXAMPLE):
        return markdown
    if name == "findings.md":  # ends with the ledger, which the repository has as CSV alone
        markdown += LEDGER.format(findings.ledger(read_rows(ROOT / findings.LEDGER)))
    source = {page: file for file, page in ELSEWHERE.items()}.get(name, f"docs/{name}")
    return re.sub(r"^ {3}(?=- )", "    ", relinked(markdown, source, config.repo_url), flags=re.MULTILINE)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert formulas to MathML, and unescape ``|`` in table cells, as code hosts do."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace(r"\|", "|"), formulas(content), flags=re.DOTALL)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Label the search box for screen readers."""
    search = 'data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')
