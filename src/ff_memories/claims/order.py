"""Sort claims by name."""

PAPERS = "K"  # the first letter of the paper's claims


def natural(claim: str) -> tuple[bool, str, int]:
    """Return a sort key that puts K2 before K10, and the paper's claims before others."""
    letters = claim.rstrip("0123456789")
    return beyond(claim), letters, int(claim[len(letters) :] or 0)


def beyond(claim: str) -> bool:
    """Return whether a claim is not the paper's, but goes beyond it."""
    return not claim.startswith(PAPERS)
