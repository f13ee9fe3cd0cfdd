"""Which results of a plan are computed again where they are read, rather than moved through main memory.

Sets
    Pairs (t, k): segment k fetches result t, which an earlier one stored. To these come the inputs of the operator that
    writes t, and the inputs of theirs, where they are results, too: t may be rematerialised from rematerialised inputs.
Data
    In cycles of the link to main memory: f_tk of the fetches, s_t of the stores; m_tk to bring t into k where it is
    not there yet: its bytes, twice if nobody stores it so far, and 0 if k reads it anyway or the shared memory holds
    it while k runs. w_tk: cycles of the cores that t takes, in proportion to what k needs of it.
Variables
    r_tk: t is rematerialised in k; b_tk: it is brought there for that; n_t: nobody fetches t any more.
Constraints
    (1) What writes t has its inputs: r_tk => b_uk or r_uk for each input u that is not there.
    (2) n_t => r_tk for each segment k that fetches t, and not b_tk: what is brought has to be stored.
    (3) Some segment reads the first run: not all r_tk, if only those segments read t, and it is no output.
Objective
    Least of sum w_tk r_tk + sum m_uk b_uk - sum f_tk r_tk - sum s_t n_t.
Relaxed
    Cores and link are thought to take turns; room in the memories is not looked at. A fetch that several segments
    share is never saved. What is chosen is planned like any other graph, and kept if the prediction says that it is
    faster.
Reference: Checkmate (Jain et al., MLSys 2020).
"""

from __future__ import annotations

from ...cpsat.backend import Expr, Model, Var, total
from .problem import Pair, RematerialisationProblem


def build(data: RematerialisationProblem) -> tuple[Model, dict[Pair, Var]]:
    """The model, and r_tk."""
    m = Model("rematerialisation")
    rematerialised = {(t, k): m.bool(f"rematerialised[{t}, {k}]") for t, k in data.work}
    brought = {(u, k): m.bool(f"brought[{u}, {k}]") for u, k in data.bring}
    unmoved = {t: m.bool(f"unmoved[{t}]") for t in data.stored}
    # (1)
    for (t, k), inputs in data.missing.items():
        for u in inputs:
            sources = [brought[u, k], *([rematerialised[u, k]] if (u, k) in rematerialised else [])]
            m.any_of(sources, when=rematerialised[t, k])
    # (2)
    for t, k in data.fetched:
        if t in unmoved:
            m.implication(unmoved[t], rematerialised[t, k])
    for (u, _), b in brought.items():
        if u in unmoved:
            m.at_most_one([b, unmoved[u]])
    # (3)
    for t, segments in data.last.items():
        m.add(total(rematerialised[t, k] for k in segments) <= len(segments) - 1)
    cost: list[Expr] = [cycles * rematerialised[pair] for pair, cycles in data.work.items()]
    cost += [cycles * brought[pair] for pair, cycles in data.bring.items()]
    cost += [-cycles * rematerialised[pair] for pair, cycles in data.fetched.items()]
    cost += [-cycles * unmoved[t] for t, cycles in data.stored.items()]
    m.minimize(total(cost))
    return m, rematerialised
