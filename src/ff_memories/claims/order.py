"""Sort claims by name."""


def natural(claim: str) -> tuple[str, int]:
    """Return a sort key that puts K2 before K10."""
    letters = claim.rstrip("0123456789")
    return letters, int(claim[len(letters) :] or 0)
