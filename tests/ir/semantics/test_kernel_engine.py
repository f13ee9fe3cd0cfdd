"""Where kernels run: what each engine would take, worked out by hand for `tiny`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from girih.ir.graph import Graph, Host, Op, Tensor
from girih.ir.load_machine import load_machine
from girih.ir.semantics.kernel_engine import kernel_engine, kernel_work

TINY = load_machine("tiny")
WITHOUT = replace(TINY, engines=tuple(e for e in TINY.engines if "scalar" not in e.classes))


def graph(operations: int, special: int = 0, engine: Literal["host", "scalar"] = "host") -> Graph:
    """One kernel that reads the same 400 bytes twice, and writes 40."""
    tensors = (Tensor("x", (100,), "float32"), Tensor("y", (10,), "float32"))
    op = Op("k", (), ("x", "x"), ("y",), host=Host("", "", engine, operations, special))
    return Graph("net", tensors, (op,), (), (), ())


def test_bytes_count_once() -> None:
    work = kernel_work(g := graph(7, 2), g.ops[0])
    assert (work.read, work.written, work.moved, work.operations, work.special) == (400, 40, 440, 7, 2)


# The host takes 1000 + 440 / 4 = 1110 cycles; the scalar engine 50 to start and 4 + 50 until its result is visible.
@pytest.mark.parametrize(
    ("operations", "special", "kind"),
    [(1005, 0, "scalar"), (1006, 0, "host"), (990, 1, "scalar"), (991, 1, "host"), (1, 0, "scalar"), (0, 0, "host")],
)
def test_it_runs_where_it_is_done_sooner(operations: int, special: int, kind: str) -> None:
    g = graph(operations, special)
    assert kernel_engine(g, g.ops[0], TINY)[0] == kind
    assert kernel_engine(g, g.ops[0], WITHOUT)[0] == "host"


def test_what_is_written_for_a_scalar_engine_runs_there_if_there_is_one() -> None:
    g = graph(10**6, engine="scalar")
    kind, engine, cost = kernel_engine(g, g.ops[0], TINY)
    assert (kind, engine.name, cost.busy) == ("scalar", "SCU", 10**6 + 50)
    assert kernel_engine(g, g.ops[0], WITHOUT)[0] == "host"


def test_what_takes_nobody_knows_how_long_runs_on_the_host() -> None:
    g = graph(0, engine="scalar")
    assert kernel_engine(g, g.ops[0], TINY)[0] == "host"
