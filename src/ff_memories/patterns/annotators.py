"""Who annotates: people, simulated people, and a machine that stands in for them."""

from collections.abc import Collection

ANNOTATOR = "proxy"
PEOPLE = "people"  # all annotators but the proxy
SIMULATED = "simulated"  # how the names of simulated annotators begin
TYPES = ("shallow", "semantic")


def marks(annotators: Collection[str]) -> list[str]:
    """Return what must be said, and seen, of labels by these annotators; nothing where all are people."""
    said = []
    if ANNOTATOR in annotators:
        said.append("AUTOMATIC PROXY")
    if any(name.startswith(SIMULATED) for name in annotators):
        said.append("SIMULATED")
    return said
