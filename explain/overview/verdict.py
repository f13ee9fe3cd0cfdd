"""The verdict: two sentences about how good the schedule is, and whether more time can make it better."""

from __future__ import annotations

from ...ir.bounds.lower_bound import CHAIN_AROUND, CRITICAL_PATH
from ..report_summary import ReportSummary


def verdict(summary: ReportSummary, frequency: float) -> tuple[str, str]:
    """How many cycles against which bound; what ended the search, and whether more time can help."""
    items = "" if summary.batch is None else f" for a batch of {summary.batch:,}"
    clusters = "" if summary.clusters_used == 1 else f" on {summary.clusters_used} clusters"
    return (
        f"{summary.network} takes {summary.cycles:,} cycles on {summary.machine} ({summary.milliseconds:,.3f} ms at "
        f"{frequency / 1e9:g} GHz){items}{clusters}: {_distance(summary)}.",
        f"The search: {summary.solver_reason}.",
    )


def _distance(summary: ReportSummary) -> str:
    resource, _, _ = summary.lower_bound_reason.partition(":")
    if summary.ratio is None:
        return "the lower bound is 0, because nothing has to be computed or moved"
    if resource == CRITICAL_PATH:
        what = f"the {CRITICAL_PATH}"
    elif resource.startswith(CHAIN_AROUND):
        what = f"mostly what must be before and after the work of {resource.removeprefix(CHAIN_AROUND)}"
    else:
        what = f"the work of {resource}"
    gap = (summary.cycles - summary.lower_bound_cycles) / summary.cycles
    return f"{summary.ratio:.2f} x the lower bound of {summary.lower_bound_cycles:,}, which is {what} (gap {gap:.1%})"
