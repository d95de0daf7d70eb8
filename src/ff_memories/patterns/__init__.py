"""E2 and E14: sheets for the people who read triggers and compositions, their scoring, and a stand-in by machine."""

from collections.abc import Collection

ANNOTATOR = "proxy"
PEOPLE = "people"  # all annotators but the proxy
SIMULATED = "simulated"  # how the names of simulated annotators begin
TYPES = ("shallow", "semantic")
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


def marks(annotators: Collection[str]) -> list[str]:
    """Return what must be said, and seen, of labels by these annotators; nothing where all are people."""
    said = []
    if ANNOTATOR in annotators:
        said.append("AUTOMATIC PROXY")
    if any(name.startswith(SIMULATED) for name in annotators):
        said.append("SIMULATED")
    return said
