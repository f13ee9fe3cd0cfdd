"""Readers agree with a search through the net, whatever changes and goes."""

from __future__ import annotations

import random

import pytest

from girih.frontend.net.net import Info, Loop, Net, Ref, Step
from girih.frontend.net.use_def import Readers


def _loop(target: str, sources: list[str]) -> Loop:
    return Loop({}, Ref(target, ()), "copy", tuple(Ref(s, ()) for s in sources))


def _net(rng: random.Random, count: int) -> Net:
    steps: list[Step] = []
    for i in range(count):
        sources = rng.sample([f"t{j}" for j in range(i)], min(i, rng.randint(0, 3)))
        steps.append(Step(f"s{i}", (), ("", i), (f"t{i}",), [_loop(f"t{i}", sources)]))
    return Net({f"t{i}": Info((), "float32") for i in range(count)}, {}, steps)


@pytest.mark.parametrize("seed", range(20))
def test_readers_agree_with_a_search(seed: int) -> None:
    rng = random.Random(seed)
    net = _net(rng, 12)
    readers = Readers(net)
    left = list(net.steps)
    for turn in range(20):
        step = rng.choice(left)
        if turn % 4 == 3:
            readers.remove(step)
            left.remove(step)
        elif turn % 4 == 2:
            step.outputs = (f"u{turn}",)
            step.loops = [_loop(f"u{turn}", [r.tensor for r in step.loops[0].reads])]
            readers.changed(step)
        else:
            step.loops = [_loop(step.output, rng.sample([f"t{i}" for i in range(12)], 2))]
            readers.changed(step)
        names = [f"t{i}" for i in range(12)] + [f"u{i}" for i in range(20)]
        for name in names:
            assert readers.of(name) == [s for s in left if name in s.inputs]
            assert readers.writer(name) is next((s for s in left if name in s.outputs), None)
    readers.finish()
    assert net.steps == left
