"""Which loop nests of TIR are read as records of blocks."""

from __future__ import annotations

import pytest
from tvm.script import from_source  # pyright: ignore[reportUnknownVariableType]

from girih.frontend.net.linear import NotAffine
from girih.frontend.relax.tir_records import Kernel, read_kernel


def row_sums(init: str) -> Kernel:
    """The sums of the rows of a matrix, which begin with what the line ``init`` says."""
    text = f"""
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.sblock("sum"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            {init}
            b[v_i] = b[v_i] + a[v_i, v_k]
"""
    return read_kernel(from_source(text))


def test_a_reduction_has_its_combiner_and_its_axes() -> None:
    (block,) = row_sums("with T.init(): b[v_i] = T.float32(0)").blocks
    assert [(i.name, i.extent, i.reduce) for i in block.iters] == [("i", 4, False), ("k", 8, True)]
    assert [s.combine for s in block.stores] == ["sum"]


def test_a_reduction_that_begins_with_what_was_there_is_refused() -> None:
    """Read as a plain store, it would lose all but the last summand."""
    with pytest.raises(NotAffine, match="without initial value"):
        row_sums("pass")


@pytest.mark.parametrize("begin", ["T.float32(5)", "a[0, 0]"])
def test_a_reduction_that_begins_with_another_number_is_refused(begin: str) -> None:
    """Its record has no room for it, so that the number would be lost."""
    with pytest.raises(NotAffine, match="a sum that begins with"):
        row_sums(f"with T.init(): b[v_i] = {begin}")
