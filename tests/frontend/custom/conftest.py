"""What is registered by a test is forgotten after it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from girih.ir.custom_operators import registered_for_now


@pytest.fixture(autouse=True)
def forgotten() -> Generator[None]:
    with registered_for_now():
        yield
