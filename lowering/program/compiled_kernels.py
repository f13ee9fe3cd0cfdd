"""The kernels of operators in cells for one machine, each compiled once, whatever plans they belong to."""

from __future__ import annotations

from contextlib import suppress

from ...ir.custom_operators import operator_by_key
from ...ir.errors import GirihError, UsageError
from ...ir.machine import Machine
from ..emission.kernel import KernelCache
from ..kernel_store import KernelStore, TileClasses, decoded, encoded, kernel_key
from ..loops.tile_nests import tile_nests
from ..schedule.cell_spec import CellSpec
from ..schedule.lower_to_loops import lowered, scheduled
from ..schedule.prim_func import FUNCTION
from ..schedule.tile_plan import TilePlan


class CompiledKernels:
    """Remembers what it has compiled, and reads and keeps it in ``store``, if there is one."""

    def __init__(self, machine: Machine, store: KernelStore | None = None) -> None:
        self.machine = machine
        self._store = store
        self._kernels = KernelCache(machine)
        self._tiled: dict[tuple[CellSpec, TilePlan], TileClasses] = {}
        self._new: dict[str, bytes] = {}

    def tiled(self, spec: CellSpec, plan: TilePlan) -> TileClasses:
        """The tiles of an operator in a cell."""
        key = spec, plan
        if key not in self._tiled:
            store = self._store
            self._tiled[key] = self._compiled(spec, plan) if store is None else self._kept(spec, plan, store)
        return self._tiled[key]

    def keep(self) -> None:
        """Put what was compiled since the last time into the store, if there is one."""
        if self._store is not None and self._new:
            self._store.put(self._new)
            self._new = {}

    def _kept(self, spec: CellSpec, plan: TilePlan, store: KernelStore) -> TileClasses:
        name = kernel_key(spec, plan)
        data = store.get(name)
        if data is not None:
            with suppress(UsageError):  # A foreign entry is a miss.
                return decoded(data)
        tiles = self._compiled(spec, plan)
        self._new[name] = encoded(tiles)
        return tiles

    def _compiled(self, spec: CellSpec, plan: TilePlan) -> TileClasses:
        """The operator's TIR scheduled as planned, lowered by TVM, read, and its nests made instructions."""
        module = lowered(scheduled(spec, plan))
        try:
            tiled = tile_nests(module[FUNCTION], spec, plan)
            kernels = tuple(map(self._kernels.get, tiled.classes))
        except GirihError as error:
            if not spec.template:
                raise
            operator = operator_by_key(spec.template)
            raise UsageError(f"{operator.place}: what the schedule template leaves: {error}") from error
        return TileClasses(kernels, tiled.class_of, tiled.boxes, tiled.versions)
