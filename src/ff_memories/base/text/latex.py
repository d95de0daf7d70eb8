"""Corpus text is untrusted: escape it for LaTeX (for CSV, see ``base.text.escaping``)."""

from ff_memories.base.text.escaping import escape_invisible

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "-": r"{-}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip


def opened(environment: str, *columns: str | float) -> list[str]:
    """Return the first lines of a LaTeX table. A letter is a column type, a number a column's share of the line."""
    packages = ",".join(["array", "booktabs", *(["longtable"] if environment == "longtable" else [])])
    widths = [c if isinstance(c, str) else rf">{{\raggedright\arraybackslash}}p{{{c}\linewidth}}" for c in columns]
    return [
        rf"% \usepackage[T1]{{fontenc}} \usepackage{{{packages}}}",
        rf"\begin{{{environment}}}{{{''.join(widths)}}}",
        r"\toprule",
    ]


def latex(text: str) -> str:
    """Return text escaped for LaTeX: it contains no command, ligature or optional argument."""
    return "".join(_LATEX.get(c, c) for c in escape_invisible(text))
