"""Builds a :class:`~.report.Report` from the nouns of a compilation and a run: one table after the other."""

from __future__ import annotations

from functools import partial

from .compilation import Compilation
from .convergence import convergence
from .cycles.losses import largest_losses
from .export.formats import exported
from .html.page import page
from .memory_use import memory_rows, traffic_rows
from .model_answers import WHOLE_PLAN, gap, model_rows
from .overview.idle_engines import idle_rows
from .overview.next_steps import next_steps
from .overview.verdict import verdict
from .overview.waterfall import waterfall
from .plan_tables import ending, host_rows, operator_rows, segment_rows, waiting
from .report import Report
from .report_summary import ReportSummary
from .warnings import compilation_warnings


def build_report(compilation: Compilation, network: bytes = b"") -> Report:
    """Explain a compilation by a run of its program, of which only the times are read.

    ``network`` is the ONNX network, which is needed to write it with metadata and for nothing else.
    """
    graph, plan, program, machine = compilation.graph, compilation.plan, compilation.program, compilation.machine
    log, trace, breakdown, loads = compilation.log, compilation.trace, compilation.breakdown, compilation.loads
    hosts = host_rows(graph, machine)
    summary = ReportSummary(
        network=graph.name,
        machine=machine.name,
        strategy=plan.strategy,
        clusters_used=graph.replicas,
        batch=graph.batch,
        segments=len(plan.segments),
        steps=len(plan.steps),
        operators=len(graph.ops),
        host_operators=sum(1 for row in hosts if row.engine == "host"),
        scalar_operators=sum(1 for row in hosts if row.engine == "scalar"),
        instructions=program.instructions,
        cycles_predicted=plan.cycles_predicted,
        cycles_simulated=plan.cycles_simulated,
        cycles_waiting=sum(waiting(plan).values()),
        cycles_ending=ending(plan),
        cycles=trace.cycles,
        lower_bound_cycles=plan.lower_bound_cycles,
        lower_bound_reason=plan.lower_bound_reason,
        ratio=trace.cycles / plan.lower_bound_cycles if plan.lower_bound_cycles else None,
        seconds_at_clock=trace.cycles / machine.frequency,
        plans=sum(1 for run in log.runs if run.model == WHOLE_PLAN),
        solver_status=log.status,
        solver_reason=log.reason,
        more_time_helps=log.more_time_helps,
        gap=gap(plan.cycles, plan.lower_bound_cycles),
        solver_seconds=log.seconds,
    )
    rows = waterfall(breakdown, machine, plan.lower_bound_cycles, trace.cycles)
    memories = memory_rows(graph, plan, machine)
    return Report(
        summary=summary,
        verdict=verdict(summary, machine.frequency),
        warnings=compilation_warnings(graph, program, machine, compilation.described or machine),
        waterfall=rows,
        idle=idle_rows(breakdown, machine),
        next_steps=next_steps(rows, breakdown.bounding, summary, memories, machine),
        largest_losses=largest_losses(breakdown.operators, machine),
        models=model_rows(plan, log),
        convergence=convergence(log),
        breakdown=breakdown,
        segments=segment_rows(plan, loads),
        memories=memories,
        traffic=traffic_rows(graph, plan, machine),
        operators=operator_rows(compilation),
        hosts=hosts,
        provenance=compilation.provenance,
    ).drawn_from(compilation, page, partial(exported, network=network))
