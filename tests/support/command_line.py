"""A command in the process of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from girih.api.cli import app as cli


def girih(capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as exit:
        cli.main([str(w) for w in words])
    assert isinstance(exit.value.code, int)
    out, err = capfd.readouterr()
    return exit.value.code, out, err
