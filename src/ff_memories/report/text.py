"""Corpus text is anybody's: escaped for LaTeX; for CSV see ``plain``."""

from ff_memories.plain import cell, csv_text, visible

__all__ = ["cell", "csv_text", "latex", "visible"]

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "-": r"{-}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip


def latex(text: str) -> str:
    """Return text for LaTeX: nothing in it is a command, a ligature or an optional argument."""
    return "".join(_LATEX.get(c, c) for c in visible(text))
