"""The net is checked between all passes of every import in these tests, and the graph at its end."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True, scope="session")
def checked_nets() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIRIH_CHECK", "1")
        yield
