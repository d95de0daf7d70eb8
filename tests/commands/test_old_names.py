"""Commands that went say what does their work now, and that exists."""

from importlib.util import find_spec

import pytest

from ff_memories import cli


@pytest.mark.parametrize("old", cli.WENT)
def test_a_command_that_went_names_what_does_its_work(old, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(old.split())
    message, now = capsys.readouterr().err, cli.WENT[old]
    assert f"{old}: no such command any more" in message and now in message
    if now.startswith("python -m "):
        assert find_spec(now.split()[2])
