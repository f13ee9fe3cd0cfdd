"""Data: runs the instructions on the memories, in the order in which the clock ended them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir.errors import UsageError
from ..ir.machine import Machine
from ..ir.program import HostKernel, Placed, Program, ProgramPort
from ..ir.reach import Strided
from ..ir.row import Row
from .blas import single_threaded
from .memory import MainStore, Store, dense
from .numbers import store
from .places import Place
from .ports import constant_bytes, join, split
from .semantics import picked, semantics
from .tasks import Prepared, operand_cores
from .templates import Template
from .violations import Violations

RunHost = Callable[[HostKernel, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a host kernel: one replica's inputs to its outputs, in the order of the kernel's tensors."""


class Execution:
    """The memories of one cluster, for all replicas at once, and what can be done with them."""

    def __init__(self, program: Program, machine: Machine, prepared: Prepared, found: Violations) -> None:
        self._program = program
        self._machine = machine
        self._prepared = prepared
        self._found = found
        role = machine.role("main")
        self._main_number = machine.memories.index(role)
        used = dict(prepared.used)
        main: Place = (self._main_number, -1)
        for placed in _placed(program):
            used[main] = max(used[main], dense(placed, self._main_number).high)
        if used[main] > role.capacity:
            raise UsageError(
                f"the program places data up to {used[main]:#x} in {role.name}, which has {role.capacity:#x}"
            )
        self._main = MainStore(used[main], program.replicas)
        self._stores: dict[Place, Store] = {
            place: self._main if place == main else Store(size, program.replicas) for place, size in used.items()
        }

    def load(self, constants: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> None:
        """Place constants and inputs in main memory."""
        for constant in self._program.constants:
            self._main.place_constant(constant.address, constant_bytes(constant, constants))
        for port in self._program.inputs:
            at = dense(_port_tensor(port), self._main_number, writes=True)
            parts = split(port, inputs[port.name], self._program.replicas)
            self._main.view(at, 0)[...] = parts.reshape(self._program.replicas, -1)
            self._main.mark(at, 0)

    def run(self, order: Sequence[tuple[int, int]], host: RunHost | None) -> None:
        """Execute the instructions (queue, index) in this order, but those that cannot be."""
        with np.errstate(all="ignore"), single_threaded():
            for queue, index in order:
                if (queue, index) in self._prepared.broken:
                    continue
                template = self._prepared.templates[queue][index]
                if template.row.kind == "host":
                    self._call_host(queue, index, host)
                else:
                    self._execute(queue, index)

    def outputs(self) -> dict[str, np.ndarray]:
        """The output ports, for the whole batch."""
        found: dict[str, np.ndarray] = {}
        for port in self._program.outputs:
            tensor = _port_tensor(port)
            array = self._read(tensor, -1, 0, f"the output {port.name}")
            with np.errstate(all="ignore"):
                found[port.name] = join(port, array)
        return found

    def _execute(self, queue: int, index: int) -> None:
        template = self._prepared.templates[queue][index]
        instruction = self._program.streams[queue][index]
        place = self._program.queues[queue]
        row = template.row
        if any(not all(o.extents) for o, spec in zip(template.operands, row.operands, strict=True) if not spec.window):
            return
        target, *sources = template.operands
        base = int(instruction.values[template.bases[0]])
        cores = operand_cores(self._machine, place, instruction, target)
        targets = [self._stores[target.memory, core] for core in cores]
        found = [
            (
                self._stores[operand.memory, operand_cores(self._machine, place, instruction, operand)[0]],
                operand,
                int(instruction.values[at]),
            )
            for operand, at in zip(sources, template.bases[1:], strict=True)
        ]
        views = [memory.view(operand, address) for memory, operand, address in found]
        chosen = views[-1] if row.indices else None
        if chosen is not None and not self._in_bounds(template, chosen, queue, index):
            return
        for (memory, operand, address), spec in zip(found, row.operands[1:], strict=True):
            picks = chosen if spec.picked else None
            self._check_written(row, memory, operand, address, picks, queue, index)
        picks = chosen if row.operands[0].picked else None
        run = semantics(row)
        for memory in targets:
            if target.reads:
                self._check_written(row, memory, target, base, picks, queue, index)
            run(template, memory.view(target, base), *views)
            if picks is None:
                memory.mark(target, base)
            else:
                axis, at = picked(row, picks)
                memory.mark_picked(target, base, axis - 1, at)

    def _in_bounds(self, template: Template, indices: np.ndarray, queue: int, index: int) -> bool:
        """Whether indices name entries that there are; reports them otherwise."""
        entries = int(template.instruction.values[template.row.position["entries"]])
        low, high = int(indices.min()), int(indices.max())
        if low >= 0 and high < entries:
            return True
        name = template.operands[-1].name
        address = int(self._program.streams[queue][index].values[template.bases[-1]])
        message = f"{name} holds the index {low if low < 0 else high}, and there are {entries} entries"
        self._found.add("bounds", queue, index, address, message)
        return False

    def _check_written(
        self, row: Row, memory: Store, operand: Strided, base: int, picks: np.ndarray | None, queue: int, index: int
    ) -> None:
        if picks is not None:
            axis, at = picked(row, picks)
            written = memory.is_written_where(operand, base, axis - 1, at)
        else:
            written = operand.low == operand.high or memory.is_written(operand, base)
        if not written:
            name = self._machine.memories[operand.memory].name
            address = base + operand.start
            message = f"reads bytes of {operand.name} in {name} from {address:#x} on that nothing wrote"
            self._found.add("uninitialised", queue, index, address, message)

    def _call_host(self, queue: int, index: int, host: RunHost | None) -> None:
        kernel = self._program.kernels[int(self._program.streams[queue][index].values[0])]
        if host is None:
            raise UsageError(f"the program calls the host kernel {kernel.name}, and there is nothing to run it")
        inputs = [
            self._read(p, queue, index, f"{p.tensor}, read by the host kernel {kernel.name},") for p in kernel.inputs
        ]
        outputs = [dense(p, self._main_number, writes=True) for p in kernel.outputs]
        targets = [self._main.view(at, 0) for at in outputs]
        for replica in range(self._program.replicas):
            results = host(kernel, [array[replica] for array in inputs])
            for target, result in zip(targets, results, strict=True):
                store(target[replica], np.asarray(result).reshape(-1))
        for at in outputs:
            self._main.mark(at, 0)

    def _read(self, placed: Placed, queue: int, index: int, what: str) -> np.ndarray:
        """(replicas, *shape) of a tensor in main memory."""
        at = dense(placed, self._main_number)
        if at.low < at.high and not self._main.is_written(at, 0):
            self._found.add("uninitialised", queue, index, placed.address, f"nothing wrote all of {what}")
        return self._main.view(at, 0).reshape(self._program.replicas, *placed.shape)


def _placed(program: Program) -> list[Placed]:
    """Everything that a program places in main memory."""
    ports = [_port_tensor(port) for port in (*program.inputs, *program.outputs)]
    return [*program.constants, *ports, *(p for k in program.kernels for p in (*k.inputs, *k.outputs))]


def _port_tensor(port: ProgramPort) -> Placed:
    return Placed(port.name, port.address, port.tensor_dtype, port.tensor_shape)
