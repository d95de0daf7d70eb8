"""The one error a user can mend: what is wrong, where, and how to put it right."""


class UserError(Exception):
    """Raised for bad input. The command line prints it without a traceback and exits with status 2."""

    def __init__(self, what: str, mend: str | None = None):
        super().__init__(what if mend is None else f"{what}\n  to mend it: {mend}")
