"""The sheets of a study, by the names of their files."""

SHEETS = (
    "patterns.html",
    "distance.html",
    "patterns.csv",
    "distance.csv",
    "label_studio/interface.xml",
    "label_studio/tasks.json",
    "doccano/labels.json",
    "doccano/examples.jsonl",
)
