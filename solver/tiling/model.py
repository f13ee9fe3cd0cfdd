"""Model 3, tiling: how one operator runs on one core, for its box of the output.

Sets
    A shapes: tile sizes and loop order (:mod:`.candidates`); B modes: tiles of the reduction, versions d of the private
    buffers that both engines use (1 to 8) and w of the weights (1 to 3).
Data
    Of shape a: scratch s_a of both engines and v_a of the vector engine alone, and columns n_a of the stationary
    operand (bytes), tiles t_a, changes and sets of its columns in loop order, work of both engines. Of mode b: number
    r_b of reduce tiles and points p_b of one. I, W: capacities of the accumulator and the weight memory.
    C_ab cycles: with M, V the busy cycles of the engines, at the pace of the banks that serve them (each reduce tile
    issues the matrix instructions, fills the array, and reads and writes the sums again), l the latency between them,
    N loads of weights that keep a queue busy for u and are there after v cycles,
        C_ab = max(M, V, (M + V + t l) / d, N u, (M + N v) / w) + V / t + first load if the next operator's
               weights do not fit beside these;
    N is sets * r where w versions hold them all, changes * r where they hold one set, else t * r. To these come the
    cycles that the matrix engine waits for the vector operator that makes its input (:mod:`.producer_stall`).
    A contraction that both engines can run is asked twice. On the vector engine there is one mode and
        C_a = max(V + V / t, u) with u of all its weights, which have to be in local memory; whichever engine has the
    smaller T runs it where the prediction of its segment agrees (:mod:`..subproblem.tiling_alternatives`).
Variables
    x_a the shape is used, y_b the mode is used, T cycles.
Constraints
    (1) one shape, one mode: exactly one x_a, exactly one y_b.
    (2) sums: if y_b, then sum_a (d_b s_a + v_a) x_a <= I.
    (3) weight memory: if y_b, then sum_a n_a x_a <= (W / w_b, rounded down to the alignment) / p_b.
    (4) time: if y_b, then T >= sum_a C_ab x_a.
Objective
    T.
Heuristic and bound
    Hint: for each shape the most versions and the largest reduce tile that fit. Bound: the least C_ab of all, whether
    it fits or not. Where they meet, no solver runs.
Relaxed
    Rates of shared links while others use them; whether neighbours in the segment let the first and the last tile
    overlap. A chosen tile is checked against every tile of every cell; one that does not fit is excluded
    (:mod:`.solve`).
"""

from __future__ import annotations

from ..cpsat.backend import Model, Var, weighted
from .problem import TilingProblem


def build(problem: TilingProblem, forbidden: set[int]) -> tuple[Model, list[Var], list[Var], Var]:
    """The model, and x, y and T."""
    model = Model("tiling")
    x = [model.bool(f"shape {'x'.join(map(str, s.sizes))}") for s in problem.shapes]
    y = [model.bool(f"mode {m.reduction.sizes} {m.depth} {m.weight_depth}") for m in problem.modes]
    time = model.int(0, int(problem.cycles.max()), "cycles")
    with model.group("one shape, one mode"):  # (1)
        model.exactly_one(x)
        model.exactly_one(y)
        for a in sorted(forbidden):
            model.add(x[a] == 0)
    for b, mode in enumerate(problem.modes):
        with model.group("sums"):  # (2)
            scratch = [s.scratch.total(mode.depth) for s in problem.shapes]
            model.add(weighted(x, scratch) <= problem.sums, when=y[b])
        if problem.element:
            with model.group("weight memory"):  # (3)
                model.add(weighted(x, [s.columns for s in problem.shapes]) <= problem.column_limit(mode), when=y[b])
        with model.group("time"):  # (4)
            model.add(time >= weighted(x, [int(c) for c in problem.cycles[:, b].tolist()]), when=y[b])
    model.minimize(time)
    return model, x, y, time
