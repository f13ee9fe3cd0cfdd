"""Kernels that were kept: the same program, without TVM; what is damaged is compiled again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from girih.lowering import Lowerer
from girih.lowering.program import compiled_kernels
from tests.support.compiled import compiled_residual


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.entries.get(key)

    def put(self, entries: Mapping[str, bytes]) -> None:
        self.entries |= entries


def test_a_kept_kernel_is_the_same_and_needs_no_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, store = compiled_residual(), Memory()
    assert Lowerer(compiled.graph, compiled.machine, store).program(compiled.plan) == compiled.program
    assert store.entries

    def forbidden(*_: Any) -> None:
        raise AssertionError("scheduled again")

    with monkeypatch.context() as patch:
        patch.setattr(compiled_kernels, "scheduled", forbidden)
        assert Lowerer(compiled.graph, compiled.machine, store).program(compiled.plan) == compiled.program
    for key in store.entries:
        store.entries[key] = b'{"kernels": 1}'
    assert Lowerer(compiled.graph, compiled.machine, store).program(compiled.plan) == compiled.program
