"""Name the kinds of annotators: people, simulated people, and an automatic proxy."""

from collections.abc import Collection

ANNOTATOR = "proxy"
PEOPLE = "people"  # all annotators but the proxy
SIMULATED = "simulated"  # prefix of simulated annotators' names
TYPES = ("shallow", "semantic")


def marks(annotators: Collection[str]) -> list[str]:
    """Return the marks that labels by these annotators must carry; nothing if all are people."""
    said = []
    if ANNOTATOR in annotators:
        said.append("AUTOMATIC PROXY")
    if any(name.startswith(SIMULATED) for name in annotators):
        said.append("SIMULATED")
    return said
