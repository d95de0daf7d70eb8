"""The order of claims, by their names."""


def natural(claim: str) -> tuple[str, int]:
    """Return what sorts K2 before K10."""
    letters = claim.rstrip("0123456789")
    return letters, int(claim[len(letters) :] or 0)
