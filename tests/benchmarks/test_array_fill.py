"""The array's account: what is lost adds up, and is what a hand would count."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from benchmarks.engines.array_fill import losses, spent
from girih.ir.load_machine import load_machine
from tests.support.compiled import compiled_residual

ENGINE = replace(load_machine("stcp920").engine_for("matrix"), rows=64, columns=32, depth=1)


def test_losses_of_one_instruction() -> None:
    # 197 rows in four blocks of 64, three blocks of columns, one of which is half full; a cycle for each of 100 sums.
    loss = spent(ENGINE, (197, 80, 100), body=4 * 3 * 100, fill=7)
    assert loss.again == pytest.approx(197 / 64 * 80 / 32 * 100)
    assert loss.columns == pytest.approx(4 * (3 - 2.5) * 100)
    assert loss.rows == pytest.approx((4 - 197 / 64) * 2.5 * 100)
    assert (loss.depth, loss.fill) == (0, 7)


def test_losses_add_up() -> None:
    found = losses(compiled_residual())
    assert found
    for loss in found.values():
        paid, *others = astuple(loss)
        assert paid == pytest.approx(sum(others))
        assert min(loss.needed, loss.rows, loss.columns, loss.fill, loss.idle) >= 0
