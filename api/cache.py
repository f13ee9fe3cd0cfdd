"""The cache of plans and programs, so that a repeated compilation neither solves nor lowers.

The key of a plan is the digest of all that it follows from: network, machine, options, and sources of the solver and of
lowering and simulator, which judge it. That of a program: plan, network, machine and sources of the lowering. The
contents of the plugins that are loaded are part of both, path and name of the model's file of neither. Kernels, the
instructions of one operator in one shape of cell, are kept besides, for other plans and networks that have them too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import platformdirs

from ..ir import custom_operators
from ..ir.bounds.lower_bound import lower_bound
from ..ir.checks.check_plan import check_plan
from ..ir.codec import from_json, sha256, to_json
from ..ir.errors import CheckError, UsageError
from ..ir.files import as_path
from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..solver.options import Options, Planned
from .provenance import version
from .store import Store

T = TypeVar("T")
VARIABLE = "GIRIH_CACHE"
OFF = "off"
"""The value of the environment variable that switches the default cache off."""
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Code:
    """What of the compiler an answer depends on: folders and modules of the package, and installed distributions."""

    sources: tuple[str, ...]
    distributions: tuple[str, ...]


SOLVER = Code(
    ("api/judge.py", "ir", "lowering", "simulator", "solver"),
    ("apache-tvm", "apache-tvm-ffi", "girih", "numpy", "ortools"),
)
"""Of plans: what judges them is a part of it."""
LOWERING = Code(("ir", "lowering"), ("apache-tvm", "apache-tvm-ffi", "girih", "numpy"))


@dataclass(frozen=True)
class PlanKey:
    """What a plan follows from; ``disabled`` are those of the options in order, and ``options`` the others."""

    graph: str
    machine: str
    options: Options
    disabled: tuple[str, ...]
    code: str


@dataclass(frozen=True)
class ProgramKey:
    """What a program follows from."""

    graph: str
    machine: str
    plan: str
    code: str


@dataclass(frozen=True)
class KernelKey:
    """What the instructions of an operator in a cell follow from."""

    kernel: str
    machine: str
    code: str


@dataclass(frozen=True)
class Kernels:
    """A :class:`~girih.lowering.kernel_store.KernelStore` of one machine."""

    store: Store
    machine: str

    def _name(self, key: str) -> str:
        return f"{sha256(KernelKey(key, self.machine, _code(LOWERING)))}.kernel"

    def get(self, key: str) -> bytes | None:
        return self.store.get(self._name(key))

    def put(self, entries: Mapping[str, bytes]) -> None:
        self.store.put_all({self._name(key): content for key, content in entries.items()})


@dataclass(frozen=True)
class Cache:
    """Plans and programs in a store; without one, everything is computed each time.

    An entry is checked before it is used; one that does not pass is computed again, with a warning.
    """

    store: Store | None

    def kernels(self, machine: Machine) -> Kernels | None:
        """Where kernels for a machine are kept; ``None`` without a store."""
        return None if self.store is None else Kernels(self.store, sha256(machine))

    def planned(
        self, graph: Graph, machine: Machine, options: Options, solve: Callable[[], Planned]
    ) -> tuple[Planned, bool]:
        """The plan and its log, and whether they are from the cache; else they are what ``solve`` returns.

        A plan whose search the clock or the user ended is not kept: a repetition would give another.
        """
        if self.store is None:
            return solve(), False
        # A set has no order, and a name must not depend on one.
        disabled = tuple(sorted(options.disabled))
        bare = replace(options, disabled=frozenset())
        name = f"{sha256(PlanKey(graph.digest, sha256(machine), bare, disabled, _code(SOLVER)))}.plan"
        cached = _read_entry(self.store, name, lambda data: _read_plan(data, graph, machine, options))
        if cached is not None:
            return cached, True
        planned = solve()
        if planned.log.is_reproducible:
            self.store.put(name, to_json(planned))
        return planned, False

    def lowered(self, graph: Graph, plan: Plan, machine: Machine, lower: Callable[[], Program]) -> tuple[Program, bool]:
        """The program of a plan, and whether it is from the cache; else it is what ``lower`` returns."""
        if self.store is None:
            return lower(), False
        key = ProgramKey(graph.digest, sha256(machine), sha256(plan), _code(LOWERING))
        name = f"{sha256(key)}.program"
        cached = _read_entry(self.store, name, lambda data: _read_program(data, key))
        if cached is not None:
            return cached, True
        program = lower()
        self.store.put(name, program.to_bytes())
        return program, False


def open_cache(where: str | os.PathLike[str] | bool) -> Cache:
    """The cache in a folder; ``True``: in the default one, if it is not switched off; ``False``: none.

    Raises :class:`UsageError` if there is something else in the folder's place, or no folder can be there.
    """
    if where is False:
        return Cache(None)
    folder = default_folder() if where is True else as_path("cache", where)
    if folder is None:
        return Cache(None)
    try:
        is_other = folder.exists() and not folder.is_dir()
    except OSError as error:
        raise UsageError(f"{folder} cannot hold a cache: {error.strerror}; choose another place") from error
    if is_other:
        raise UsageError(f"{folder} is no folder, so that it cannot hold a cache; choose another place")
    return Cache(Store(folder))


def default_folder() -> Path | None:
    """What ``GIRIH_CACHE`` says (``off``: none), or else the user's folder for caches on this system."""
    named = os.environ.get(VARIABLE)
    if named == OFF:
        return None
    return Path(named) if named else platformdirs.user_cache_path("girih", appauthor=False)


@cache
def code_sha256(code: Code) -> str:
    """Of the sources in order, and of the versions of the distributions."""
    digest = hashlib.sha256()
    for place in (_ROOT / name for name in code.sources):
        for source in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            content = source.read_bytes()
            digest.update(f"{source.relative_to(_ROOT).as_posix()} {len(content)}\n".encode() + content)
    for name in code.distributions:
        digest.update(f"{name} {version(name)}\n".encode())
    return digest.hexdigest()


def _code(code: Code) -> str:
    """Of the code of ours, and of the plugins that are loaded."""
    return code_sha256(code) + custom_operators.digest()


def _read_entry(store: Store, name: str, read: Callable[[bytes], T]) -> T | None:
    """The content of an entry, read by ``read``; ``None`` if there is no entry, or ``read`` rejects it."""
    data = store.get(name)
    if data is None:
        return None
    try:
        return read(data)
    except Exception as error:
        # Whatever exception a foreign entry causes in a reader or a checker, it is a miss.
        store.distrust(name, str(error) or type(error).__name__)
        return None


def _read_plan(data: bytes, graph: Graph, machine: Machine, options: Options) -> Planned:
    planned = from_json(data, Planned)
    plan = planned.plan
    if (plan.graph_sha256, plan.strategy, plan.seed) != (graph.digest, options.strategy, options.seed):
        raise CheckError("it is a plan for another network or other options")
    if (plan.lower_bound_cycles, plan.lower_bound_reason) != lower_bound(graph, machine):
        raise CheckError("its lower bound is not the one of this network")
    check_plan(plan, graph, machine)
    return planned


def _read_program(data: bytes, key: ProgramKey) -> Program:
    program = Program.from_bytes(data)
    if (program.graph_sha256, program.machine_sha256, program.plan_sha256) != (key.graph, key.machine, key.plan):
        raise CheckError("it is a program for another plan")
    return program
