"""Programs that fill every memory of `tiny`, run given instructions one after the other, and bring everything back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

import numpy as np

from girih.ir.isa.table import Instruction, make
from girih.ir.program import Program, ProgramPort
from girih.simulator import simulate
from tests.support.simulator.programs import TINY, array, move, program
from tests.support.simulator.scalar_oracle import State

WINDOW = dict.fromkeys(("DDR", "LLB", "L1", "L1W", "IM"), 8192)
"""How much of each memory is filled and, but for the weight memory, returned."""
QUEUES = [*(f"{engine}{core}" for core in range(TINY.cores) for engine in ("MME", "VME", "MTI", "MTO")), "DMR", "DMW"]
PLACES = [(m.name, core) for m in TINY.memories for core in (range(TINY.cores) if m.scope == "core" else (-1,))]
_AT = dict(zip(PLACES, np.cumsum([0, *(WINDOW[name] for name, _ in PLACES)]).tolist(), strict=False))
"""Where each place is in the image of them all; main memory comes first."""
_SIZE = sum(WINDOW[name] for name, _ in PLACES)
_STAGE = 8192
"""Where the image passes the shared memory, and the accumulators the local one."""


class Around:
    """A program under construction: filled memories before the instructions that are emitted, and all returned after."""

    def __init__(self) -> None:
        self.streams: dict[str, list[Instruction]] = {name: [] for name in QUEUES}
        self._tokens = 0
        rest = _AT[PLACES[2]]
        self._copy("DMR", "dcopy", ("DDR", WINDOW["DDR"]), ("LLB", 0), WINDOW["LLB"])
        self._copy("DMR", "dcopy", ("DDR", rest), ("LLB", _STAGE), _SIZE - rest)
        self.meet()
        for name, core in PLACES[2:]:
            source, target = ("LLB", _STAGE + _AT[name, core] - rest), (name, 0)
            self._copy(f"MTI{core}", "mcopy", source, ("L1", _STAGE) if name == "IM" else target, WINDOW[name])
        self.meet()
        for core in range(TINY.cores):
            ends = array("a", "L1", _STAGE, "uint8", 0, 0, 1) | array("dst", "IM", 0, "uint8", 0, 0, 1)
            self.emit(f"VME{core}", make("vcopy.v", 0, {"n0": 1, "n1": 1, "n2": WINDOW["IM"]} | ends))
        self.meet()

    def _copy(self, queue: str, mnemonic: str, source: tuple[str, int], target: tuple[str, int], size: int) -> None:
        self.emit(queue, move(mnemonic, source, target, size))

    def emit(self, queue: str, instruction: Instruction) -> None:
        self.streams[queue].append(instruction)

    def meet(self) -> None:
        """A barrier of all queues."""
        for queue in self.streams:
            self.emit(queue, make("barrier", 0, {"barrier": 0, "queues": len(self.streams)}))

    def wait(self, queue: str, other: str, count: int) -> None:
        self.emit(queue, make("wait", 0, {"queue": QUEUES.index(other), "count": count}))

    def hand(self, queue: str, other: str) -> None:
        """A token for a queue when another one is done with what it has."""
        self.emit(other, make("post", 0, {"token": self._tokens}))
        self.emit(queue, make("take", 0, {"token": self._tokens}))
        self._tokens += 1

    def program(self) -> Program:
        """Complete, with everything brought back; to be asked once."""
        self.meet()
        for name, core in PLACES[2:]:
            if name != "L1W":
                target = ("LLB", _STAGE + _AT[name, core] - _AT[PLACES[2]])
                self._copy(f"MTO{core}", "mcopy", (name, 0), target, WINDOW[name])
        self.meet()
        self._copy("DMW", "dcopy", ("LLB", 0), ("DDR", _SIZE), WINDOW["LLB"])
        self._copy("DMW", "dcopy", ("LLB", _STAGE), ("DDR", _SIZE + WINDOW["LLB"]), _SIZE - _AT[PLACES[2]])
        inputs = ProgramPort("image", (_SIZE,), "uint8", None, 0, "uint8", (_SIZE,))
        outputs = (
            ProgramPort("main", (WINDOW["DDR"],), "uint8", None, 0, "uint8", (WINDOW["DDR"],)),
            ProgramPort("rest", (_SIZE - WINDOW["DDR"],), "uint8", None, _SIZE, "uint8", (_SIZE - WINDOW["DDR"],)),
        )
        return program(self.streams, inputs=(inputs,), outputs=outputs)


def in_order(instructions: Iterable[tuple[str, Instruction]], how: Iterable[str] = ()) -> Program:
    """Instructions, each with its queue, one after the other; ``how`` orders each: by wait, token or barrier."""
    around, before = Around(), ""
    for (queue, instruction), order in zip(instructions, chain(how, repeat("wait")), strict=False):
        if before and before != queue:
            if order == "wait":
                around.wait(queue, before, len(around.streams[before]))
            elif order == "token":
                around.hand(queue, before)
            else:
                around.meet()
        around.emit(queue, instruction)
        before = queue
    return around.program()


def loosely(instructions: Iterable[tuple[str, Instruction]], random: np.random.Generator) -> Program:
    """Instructions in the order of a few random waits, tokens and barriers; none of them can be stuck."""
    around = Around()
    for queue, instruction in instructions:
        other = QUEUES[random.integers(len(QUEUES))]
        order = random.integers(12)
        if other != queue and order < 3:
            around.wait(queue, other, int(random.integers(len(around.streams[other]) + 1)))
        elif other != queue and order < 6:
            around.hand(queue, other)
        elif not order:
            around.meet()
        around.emit(queue, instruction)
    return around.program()


def image(state: State) -> np.ndarray:
    return np.concatenate([state.memory[place] for place in PLACES])


def simulated(source: Program, before: State) -> State:
    """What the simulator makes of the memories; it must find nothing wrong."""
    trace = simulate(source, TINY, {}, {"image": image(before)})
    assert trace.violations == ()
    after = np.concatenate([trace.outputs["main"], trace.outputs["rest"]])
    memory = {p: after[_AT[p] : _AT[p] + WINDOW[p[0]]] for p in PLACES}
    return State(TINY, memory | {p: before.memory[p] for p in PLACES if p[0] == "L1W"})


def empty() -> State:
    return State(TINY, {place: np.zeros(WINDOW[place[0]], np.uint8) for place in PLACES})


def copy_of(state: State) -> State:
    return State(TINY, {place: data.copy() for place, data in state.memory.items()})
