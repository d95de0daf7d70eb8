"""Say whose results a run's are, wherever they are shown. ``steps.model`` decides the scope of a fairseq model.

``paper``: the paper's own model and text. ``surrogate``: a stand-in of the same kind, or another text. ``model``: a
model of `transformers`, which is neither: its results say whether the same is seen there.
"""

SCOPES = ("paper", "surrogate", "model")
ABOUT = {  # in the middle of a sentence
    "paper": "the paper's own model",
    "surrogate": "a surrogate: not the paper's model",
    "model": "not the paper's model: these results say whether the same is seen here, and nothing about the paper's "
    "numbers",
}
NOTICES = {  # beside a figure or table; the paper's own model needs none
    "paper": "",
    "surrogate": "Surrogate model: not the paper's.",
    "model": "Not the paper's model.",
}
MARKS = {  # in an image, or above a table in LaTeX
    "paper": "",
    "surrogate": "surrogate model, not the paper's",
    "model": "not the paper's model",
}
TITLES = {"paper": "", "surrogate": "Surrogate model: ", "model": "Not the paper's model: "}  # before a page's title


def mark_latex(scope: str, columns: int) -> list[str]:
    """Return the line above a LaTeX table of so many columns that says whose results it shows, if any is needed."""
    if scope == "paper":
        return []
    said = MARKS[scope].replace(",", ":")
    return [f"\\multicolumn{{{columns}}}{{l}}{{\\textbf{{{said}}}}} \\\\"]
