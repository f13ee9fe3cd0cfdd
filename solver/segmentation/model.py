"""The constraints of the segmentation model; the formulation is in :mod:`girih.solver.segmentation.solve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from ..cpsat.backend import Expr, Model, Var, total, weighted
from .inter_segment import SHARES
from .problem import Answer, Problem


@dataclass(frozen=True)
class Variables:
    """x by column, r by activation, q by column that fetches weights again; t, d and e by cut point."""

    use: dict[int, Var]
    keep: dict[str, Var]
    shares: dict[int, Var]
    time: list[Var]
    main: list[Var]
    ahead: list[Var]


@dataclass(frozen=True)
class _Terms:
    """Linear in r and q: D_j and H_j of a column."""

    moved: Expr
    held: Expr
    most: int
    """H_j at its largest."""


def build(problem: Problem, columns: Sequence[int]) -> tuple[Model, Variables]:
    """The model over some of the columns."""
    model = Model("segmentation")
    count = problem.cuts.count
    horizon = sum(problem.columns[j].cycles + problem.least[j] for j in columns) + problem.cycles(
        sum(i.moved + i.moved_kept for j in columns for i in problem.items[j])
        + sum(problem.columns[j].again for j in columns)
    )
    crossing = dict.fromkeys(i.name for j in columns for i in problem.items[j] if i.keepable)
    v = Variables(
        {j: model.bool(f"use {problem.columns[j].first}..{problem.columns[j].last} #{j}") for j in columns},
        {name: model.bool(f"keep {name}") for name in crossing},
        {j: model.int(0, SHARES, f"shares #{j}") for j in columns if problem.columns[j].again},
        [model.int(0, horizon if p else 0, f"time {p}") for p in range(count + 1)],
        [model.int(0, horizon if p else 0, f"main {p}") for p in range(count + 1)],
        [model.int(0, horizon if p else 0, f"ahead {p}") for p in range(count + 1)],
    )
    _one_path(model, v, problem)
    for j in columns:
        _column(model, v, problem, j)
    _redundant(model, v, problem)
    work = weighted([v.use[j] for j in columns], [problem.columns[j].cycles for j in columns])
    model.minimize(problem.exposed * v.time[count] + work + v.main[count])
    return model, v


def _one_path(model: Model, v: Variables, problem: Problem) -> None:
    """(1)"""
    count = problem.cuts.count
    with model.group("one path"):
        into: list[list[Var]] = [[] for _ in range(count + 1)]
        out: list[list[Var]] = [[] for _ in range(count + 1)]
        for j, x in v.use.items():
            out[problem.cuts.first[j]].append(x)
            into[problem.cuts.after[j]].append(x)
        model.exactly_one(out[0])
        model.exactly_one(into[count])
        for cut in range(1, count):
            if into[cut] or out[cut]:
                model.add(total(into[cut]) == total(out[cut]))


def _terms(v: Variables, problem: Problem, j: int) -> _Terms:
    """D_j and H_j, both in cycles and rounded up."""
    column, cycles = problem.columns[j], problem.cycles
    moved: Expr = cycles(column.weights)
    held: Expr = 0
    most = 0
    for item in problem.items[j]:
        high, low = cycles(item.held_kept), cycles(item.held)
        if item.keepable and item.name in v.keep:
            keep = v.keep[item.name]
            moved += cycles(item.moved) + (cycles(item.moved_kept) - cycles(item.moved)) * keep
            held += low + (high - low) * keep
            most += max(high, low)
        else:
            moved += cycles(item.moved)
            held += low
            most += low
    if j in v.shares:
        part = cycles(column.again / SHARES)
        moved += SHARES * part - part * v.shares[j]
        held += cycles(column.weights / SHARES) * v.shares[j]
        most += SHARES * cycles(column.weights / SHARES)
    return _Terms(moved, held, most)


def _column(model: Model, v: Variables, problem: Problem, j: int) -> None:
    """(2) to (6)"""
    column, x = problem.columns[j], v.use[j]
    p, s = problem.cuts.first[j], problem.cuts.after[j]
    terms = _terms(v, problem, j)
    capacity = floor(problem.capacity / problem.rate)
    reserve = problem.cycles(min(problem.reserve, column.weights))
    if terms.most + reserve > capacity:
        with model.group("shared memory"):
            model.add(terms.held <= capacity - reserve, when=x)
    with model.group("cores"):
        model.add(v.time[s] >= v.time[p] + column.cycles, when=x)
    with model.group("main memory"):
        model.add(v.time[s] - v.ahead[s] >= v.time[p] - v.ahead[p] + terms.moved, when=x)
        model.add(v.main[s] >= v.main[p] + terms.moved, when=x)
    with model.group("prefetch"):
        model.add(v.ahead[s] + terms.held <= capacity + problem.room(j, problem.capacity), when=x)
    if j in v.shares:
        with model.group("kept weights"):
            model.add(v.shares[j] <= SHARES * x)


def _redundant(model: Model, v: Variables, problem: Problem) -> None:
    """(7)"""
    used = list(v.use)
    count = problem.cuts.count
    with model.group("redundant"):
        model.add(v.time[count] >= weighted([v.use[j] for j in used], [problem.columns[j].cycles for j in used]))
        model.add(v.main[count] >= weighted([v.use[j] for j in used], [problem.least[j] for j in used]))
        model.add(v.time[count] >= v.main[count])


def hint(model: Model, v: Variables, problem: Problem, best: Answer) -> None:
    """Begin with a known answer."""
    for j, x in v.use.items():
        model.hint(x, int(j in best.path))
    for name, keep in v.keep.items():
        model.hint(keep, int(name in best.residence.kept))
    of = dict(zip(best.path, best.residence.shares, strict=True))
    for j, q in v.shares.items():
        model.hint(q, of.get(j, 0))
