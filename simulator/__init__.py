"""Runs programs: what comes out, when everything happened, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir.codec import sha256
from ..ir.errors import UsageError
from ..ir.machine import Machine
from ..ir.program import Program, uncollected
from ..ir.trace import Summary, Trace, npu_share
from .execution.execute import Execution, RunHost
from .execution.host_memory import check_host_memory
from .execution.ports import check_inputs
from .races import Races
from .tasks.tasks import Prepared
from .tasks.violations import Violations
from .timing.clock import Clock
from .timing.counters import busy_cycles, count, what_ended
from .timing.deadlock import report_deadlocks

__all__ = ["RunHost", "simulate"]


@uncollected()
def simulate(
    program: Program,
    machine: Machine,
    constants: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    *,
    data: bool = True,
    sanitize: bool = True,
    host: RunHost | None = None,
) -> Trace:
    """Run a program in time and, with ``data``, on real numbers.

    ``constants`` by tensor and ``inputs`` by port name; inputs hold the whole batch. ``host`` runs the kernels of the
    host and of scalar engines, once for each replica. Without ``data`` neither is used, and there are no outputs.
    Without ``data`` or without ``sanitize`` neither races nor reads of memory that nothing wrote are looked for: that
    takes time. Whatever a program does wrong is in the trace's violations; :class:`UsageError` is for arguments that do
    not fit one another, and for a run on data that needs more memory than the host has.
    """
    _check(program, machine)
    if data:
        check_inputs(program, inputs)
    violations = Violations(program)
    prepared = Prepared(program, machine, tuple(kernel.work for kernel in program.kernels), violations)
    if data:
        check_host_memory(program, machine, prepared, sanitize=sanitize)
    timeline = Clock(prepared.tasks, prepared.banks, [link.bytes_per_cycle for link in machine.links]).run()
    report_deadlocks(program, prepared.tasks, timeline, violations)
    outputs: dict[str, np.ndarray] = {}
    if data:
        execution = Execution(program, machine, prepared, violations, sanitize=sanitize)
        execution.load(constants, inputs)
        execution.run(timeline.order, host)
        outputs = execution.outputs()
        if sanitize:
            Races(program, machine, prepared, violations).check(timeline.order)
    templates, ended = what_ended(program, machine, prepared, timeline)
    start = tuple(np.array(times, np.int64) for times in timeline.start)
    seconds = timeline.cycles / machine.frequency
    summary = Summary(
        machine=machine.name,
        cycles=timeline.cycles,
        lower_bound_cycles=program.lower_bound_cycles,
        seconds=seconds,
        items_per_second=program.batch / seconds if program.batch and seconds else None,
        instructions=program.instructions,
        npu=npu_share(program.ops),
        busy=busy_cycles(program, ended),
        counters=count(machine, prepared.banks, timeline, templates, ended),
        violation_count=violations.count,
        violations=violations.records(start, timeline.cycles),
    )
    end = tuple(np.array(times, np.int64) for times in timeline.end)
    waits = [
        (queue, index, awaited, count)
        for queue, tasks in enumerate(prepared.tasks)
        for index, task in enumerate(tasks)
        for awaited, count in task.waits or ()
    ]
    return Trace(summary, start, end, outputs, np.array(waits, np.int64).reshape(-1, 4))


def _check(program: Program, machine: Machine) -> None:
    """The program is for this machine."""
    digest = sha256(machine)
    if program.machine_sha256 and program.machine_sha256 != digest:
        raise UsageError(
            f"the program is for another machine, {program.machine} (SHA-256 {program.machine_sha256[:12]}), than this "
            f"{machine.name} ({digest[:12]}); compile the model for it"
        )
    if not 1 <= program.replicas <= machine.clusters:
        raise UsageError(f"the program is for {program.replicas} clusters, and {machine.name} has {machine.clusters}")
    for queue in program.queues:
        engine = machine.engine.get(queue.engine)
        cores = range(machine.cores) if engine and engine.scope == "core" else (None,)
        if engine is None or queue.core not in cores:
            raise UsageError(f"the program has a queue for {queue}, which {machine.name} has not")
