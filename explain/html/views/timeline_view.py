"""The timeline: what every engine and link did in each cycle of the run, under what the plan predicted."""

from __future__ import annotations

import numpy as np

from ....ir.isa.assembly import print_instruction
from ....ir.machine import Machine
from ...compilation import Compilation
from ...cycles.breakdown import CAUSES, BreakdownRow
from ...cycles.wait_causes import cause_of
from ...report import Report
from ...run.instruction_columns import InstructionClass, InstructionColumns
from ...run.slot_spans import SlotSpans, predicted_spans, simulated_spans
from ..view import View

_CAPTION = (
    "Time runs to the right, in cycles of the simulated run; each row is an engine. Colours are segments, and shades "
    "their operators; a paler column was busy for part of its cycles. The rows above show when the plan predicted each "
    "operator, and when it ran. Zoom in until single instructions appear; press one to see what it waited for."
)


def timeline_view(report: Report, compilation: Compilation) -> View:
    """All instructions of the run, delta-coded, and the slots of the plan."""
    graph, plan, program, machine = compilation.graph, compilation.plan, compilation.program, compilation.machine
    columns = compilation.execution.columns
    segment = {op: number for number, s in enumerate(plan.segments) for op in s.ops}
    number = {op.name: index for index, op in enumerate(program.ops)}
    constants = graph.constant_names
    accounts = {row.op: _account(row) for row in compilation.breakdown.operators if row.cycles}
    data = {
        "cycles": compilation.trace.cycles,
        "predicted_cycles": plan.cycles_predicted,
        "frequency": machine.frequency,
        "queues": [{"engine": q.engine, "core": q.core} for q in program.queues],
        "engines": [{"name": e.name, "classes": list(e.classes)} for e in machine.engines],
        "links": [{"name": link.name, "rate": link.bytes_per_cycle} for link in machine.links],
        "operators": [
            {
                "name": op.name,
                "segment": segment.get(op.name, -1),
                "nodes": list(op.origin),
                "account": accounts.get(op.name),
            }
            for op in program.ops
        ],
        "tensors": [{"name": name, "constant": name in constants} for name in columns.tensors],
        "classes": [_class(described, machine) for described in columns.classes],
        "instructions": _instructions(columns),
        "causes": CAUSES,
        "bounding": compilation.breakdown.bounding,
        "slots": {
            "operator": np.array([number[op] for _, op in plan.slots], np.int64),
            "step": np.array([step for step, _ in plan.slots], np.int64),
        },
        "steps": {
            "segment": np.array([step.segment for step in plan.steps], np.int64),
            "instance": np.array([step.instance for step in plan.steps], np.int64),
        },
        "predicted": _spans(predicted_spans(plan)),
        "simulated": _spans(simulated_spans(plan, program, compilation.execution)),
    }
    return View("timeline", "Timeline", _CAPTION, data)


def _account(row: BreakdownRow) -> dict[str, object]:
    """The cycles of an operator on the resource that bounds the run, and its longest waits there."""
    waits = [[r.cause, r.op, r.engine, r.cycles] for r in row.reasons if r.cycles >= 0.5]
    return {"cycles": row.cycles, "busy": row.busy, "waits": waits}


def _instructions(columns: InstructionColumns) -> dict[str, np.ndarray]:
    """Columns from which ``timeline.js`` takes sums: most of them become runs of equal small numbers."""
    fresh = np.zeros(len(columns.start), bool)
    fresh[columns.first[:-1][np.diff(columns.first) > 0]] = True
    return {
        "first": columns.first,
        "gap": _since(columns.start, columns.end, fresh),
        "busy": columns.end - columns.start,
        "index": _since(columns.index, columns.index, fresh),
        "operator": _small(columns.work_for),
        "class": _small(columns.class_of),
        "tensor": _small(columns.tensor + 1),
        "releaser": np.where(columns.releaser < 0, 0, np.arange(len(columns.start)) - columns.releaser),
        **{f"base{n}": _delta(columns.bases[:, n]) for n in range(columns.bases.shape[1])},
    }


def _since(values: np.ndarray, before: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """``values`` less what ``before`` was one row earlier, or less 0 where a queue begins."""
    earlier = np.concatenate([np.zeros(min(1, len(before)), np.int64), before[:-1]])
    return values - np.where(fresh, 0, earlier)


def _delta(values: np.ndarray) -> np.ndarray:
    return np.diff(values, prepend=0)


def _small(values: np.ndarray) -> np.ndarray:
    """The values, which are not negative, in the smallest unsigned type."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _class(described: InstructionClass, machine: Machine) -> dict[str, object]:
    cost, row = described.cost.cost, described.instruction.row
    return {
        "text": print_instruction(described.instruction, tuple(m.name for m in machine.memories)),
        "mnemonic": row.mnemonic,
        "kind": row.kind,
        "meaning": row.sentence,
        "alone": cost.busy,
        "issue": cost.issue,
        "latency": cost.latency,
        "bytes": cost.payload,
        "links": [list(link) for link in cost.links],
        "cause": cause_of(machine, described.engine, described.instruction),
        "operands": [
            {"name": o.name, "memory": machine.memories[o.memory].name, "low": o.low, "high": o.high}
            for o in described.operands
        ],
    }


def _spans(spans: SlotSpans) -> dict[str, np.ndarray]:
    return {
        "slot": spans.slot,
        "start": _delta(spans.start),
        "length": spans.stop - spans.start,
        "lane": _small(spans.lane),
    }
