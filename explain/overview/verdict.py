"""The verdict: two sentences about how good the schedule is, and whether more time can make it better."""

from __future__ import annotations

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
    gap = (summary.cycles - summary.lower_bound_cycles) / summary.cycles
    return (
        f"{summary.ratio:.2f} x the lower bound of {summary.lower_bound_cycles:,}, which is the work of {resource} "
        f"(gap {gap:.1%})"
    )
