"""A run that does not fit into the host's memory is refused before it starts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping

import numpy as np
import pytest

from girih.ir.errors import UsageError
from girih.ir.isa.table import make
from girih.ir.program import Program
from girih.simulator import simulate
from girih.simulator.execution import host_memory
from girih.simulator.timing.clock import Clock
from tests.support.simulator.memory_images import image, in_order
from tests.support.simulator.programs import TINY, add, array, program, wait
from tests.support.simulator.random_operands import EXACT, anything, random_instructions


def counted(source: Program, inputs: Mapping[str, np.ndarray], *, sanitize: bool) -> int:
    """What a run says it needs."""
    asked: list[int] = []
    needed = host_memory.needed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_memory, "needed", lambda *a, **k: asked.append(needed(*a, **k)) or asked[-1])
        simulate(source, TINY, {}, inputs, sanitize=sanitize)
    return asked[0]


def test_the_message_says_how_much_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    source, inputs = in_order(random_instructions(1, EXACT)), {"image": image(anything(1))}
    monkeypatch.setattr(host_memory, "available", lambda: 1000)
    with pytest.raises(UsageError, match=r"needs about 0\.00 GB .* 0\.00 GB are free; .*--no-sanitize"):
        simulate(source, TINY, {}, inputs)
    with pytest.raises(UsageError) as error:
        simulate(source, TINY, {}, inputs, sanitize=False)
    assert "sanitize" not in str(error.value)
    # Time alone takes no data.
    assert simulate(source, TINY, {}, {}, data=False).violations == ()
    monkeypatch.setattr(host_memory, "available", lambda: None)
    assert simulate(source, TINY, {}, inputs).violations == ()


def test_it_is_reported_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "available", lambda: 1000)
    monkeypatch.setattr(Clock, "run", lambda _: pytest.fail("the clock ran"))
    with pytest.raises(UsageError, match="are free"):
        simulate(in_order(random_instructions(1, EXACT)), TINY, {}, {"image": image(anything(1))})


def test_an_instruction_that_computes_with_too_much_at_once() -> None:
    ends = array("dst", "IM", 0, "float32", 4, 4) | array("a", "L1", 0, "float32", 0, 0)
    endless = make("mmatmul", 0, {"m": 1, "n": 1, "k": 1 << 31} | ends | array("b", "L1W", 0, "float32", 0, 0))
    if (host_memory.available() or 0) < 2 * 8 << 31:
        with pytest.raises(UsageError, match=r"needs about 34\.\d\d GB"):
            simulate(program({"MME0": [endless]}), TINY, {}, {})


def test_memories_are_counted_up_to_their_last_byte() -> None:
    far = add(64, dst=65536 - 256, a=0, b=0)
    source = program({"VME0": [far], "VME1": [wait(0, 1), far]}, replicas=2)
    without, with_ = (counted(source, {}, sanitize=sanitize) for sanitize in (False, True))
    # Two clusters of two cores.
    assert 2 * 2 * 65536 <= without <= 2 * 2 * 65536 + 10_000
    # A mask, and of each core a number for each single that was read and that was written.
    assert 2 * 65536 + 2 * 2 * 65536 <= with_ - without <= 2 * 65536 + 2 * 2 * 65536 + 10_000


@pytest.mark.parametrize("sanitize", [False, True])
def test_what_is_counted_is_what_is_taken(sanitize: bool) -> None:
    source, inputs = in_order(random_instructions(3, EXACT, 200)), {"image": image(anything(3))}
    need = counted(source, inputs, sanitize=sanitize)
    tracemalloc.start()
    simulate(source, TINY, {}, inputs, sanitize=sanitize)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Pages that were never touched are neither counted nor taken in truth, but Python traces them.
    assert 0.5 * peak <= need <= 3 * peak, f"{need:,} counted, {peak:,} taken"
