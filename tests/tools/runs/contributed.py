"""Commands of contrib/, in this process."""

from importlib import import_module

import pytest


def use(tool, *words):
    """Run a command of a tool: ``use("released_code", "texts", ...)``."""
    import_module(f"contrib.{tool}.__main__").main([str(word) for word in words])


def says(capsys, tool, *words):
    """Run a command that must fail; return what it says."""
    with pytest.raises(SystemExit) as end:
        use(tool, *words)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "error: " in said and "Traceback" not in said
    return said
