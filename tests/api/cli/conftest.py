"""What tests of commands begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compiled import compiled_residual


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    compiled_residual().save(tmp_path / "net.girih")
    return tmp_path / "net.girih"
