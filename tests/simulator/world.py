"""Programs that fill every memory of `tiny`, run given instructions one after the other, and bring everything back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from girih.ir.isa import Instruction, make
from girih.ir.program import Program, ProgramPort
from girih.simulator import simulate

from .micro import TINY, array, program
from .oracle import State

WINDOW = dict.fromkeys(("DDR", "LLB", "L1", "L1W", "IM"), 8192)
"""How much of each memory is filled and, but for the weight memory, returned."""
QUEUES = [*(f"{engine}{core}" for core in range(TINY.cores) for engine in ("MME", "VME", "MTI", "MTO")), "DMR", "DMW"]
PLACES = [(m.name, core) for m in TINY.memories for core in (range(TINY.cores) if m.scope == "core" else (-1,))]
_AT = dict(zip(PLACES, np.cumsum([0, *(WINDOW[name] for name, _ in PLACES)]).tolist(), strict=False))
"""Where each place is in the image of them all; main memory comes first."""
_SIZE = sum(WINDOW[name] for name, _ in PLACES)
_STAGE = 8192
"""Where the image passes the shared memory, and the accumulators the local one."""
Order = str
"""How one instruction is put after another: wait, token, barrier or none."""


def in_order(instructions: Iterable[tuple[str, Instruction]], how: Iterable[Order]) -> Program:
    """The program of instructions, each with its queue; ``how`` orders each after the one before it."""
    streams: dict[str, list[Instruction]] = {name: [] for name in QUEUES}
    tokens = 0

    def everywhere(source: tuple[str, int], target: tuple[str, int], size: int, kind: str) -> Instruction:
        ends = array("src", *source, "uint8", 0, 0, 0, 1) | array("dst", *target, "uint8", 0, 0, 0, 1)
        return make(kind, 0, {"n0": 1, "n1": 1, "n2": 1, "n3": size} | ends)

    def bytes_to(core: int, source: tuple[str, int], target: tuple[str, int], size: int) -> None:
        ends = array("a", *source, "uint8", 0, 0, 1) | array("dst", *target, "uint8", 0, 0, 1)
        streams[f"VME{core}"].append(make("vcopy.v", 0, {"n0": 1, "n1": 1, "n2": size} | ends))

    def meet() -> None:
        for stream in streams.values():
            stream.append(make("barrier", 0, {"barrier": 0, "queues": len(streams)}))

    streams["DMR"].append(everywhere(("DDR", WINDOW["DDR"]), ("LLB", 0), WINDOW["LLB"], "dcopy"))
    rest = WINDOW["DDR"] + WINDOW["LLB"]
    streams["DMR"].append(everywhere(("DDR", rest), ("LLB", _STAGE), _SIZE - rest, "dcopy"))
    meet()
    for name, core in PLACES[2:]:
        source, target = ("LLB", _STAGE + _AT[name, core] - rest), (name, 0)
        if name == "IM":
            target = ("L1", _STAGE)
        streams[f"MTI{core}"].append(everywhere(source, target, WINDOW[name], "mcopy"))
    meet()
    for core in range(TINY.cores):
        bytes_to(core, ("L1", _STAGE), ("IM", 0), WINDOW["IM"])
    meet()
    before = ""
    for (queue, instruction), order in zip(instructions, how, strict=False):
        if before and before != queue and order == "wait":
            fields = {"queue": QUEUES.index(before), "count": len(streams[before])}
            streams[queue].append(make("wait", 0, fields))
        elif before and before != queue and order == "token":
            streams[before].append(make("post", 0, {"token": tokens}))
            streams[queue].append(make("take", 0, {"token": tokens}))
            tokens += 1
        elif before and before != queue and order == "barrier":
            meet()
        streams[queue].append(instruction)
        before = queue
    meet()
    for name, core in PLACES[2:]:
        if name != "L1W":
            target = ("LLB", _STAGE + _AT[name, core] - rest)
            streams[f"MTO{core}"].append(everywhere((name, 0), target, WINDOW[name], "mcopy"))
    meet()
    streams["DMW"].append(everywhere(("LLB", 0), ("DDR", _SIZE), WINDOW["LLB"], "dcopy"))
    streams["DMW"].append(everywhere(("LLB", _STAGE), ("DDR", _SIZE + WINDOW["LLB"]), _SIZE - rest, "dcopy"))
    inputs = ProgramPort("image", (_SIZE,), "uint8", None, 0, "uint8", (_SIZE,))
    outputs = (
        ProgramPort("main", (WINDOW["DDR"],), "uint8", None, 0, "uint8", (WINDOW["DDR"],)),
        ProgramPort("rest", (_SIZE - WINDOW["DDR"],), "uint8", None, _SIZE, "uint8", (_SIZE - WINDOW["DDR"],)),
    )
    return program(streams, inputs=(inputs,), outputs=outputs)


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
