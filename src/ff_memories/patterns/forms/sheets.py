"""List the sheets of a study by file name."""

SHEETS = (
    "patterns.html",
    "distance.html",
    "patterns.csv",
    "distance.csv",
    "label_studio/interface.xml",
    "label_studio/tasks.json",
)
