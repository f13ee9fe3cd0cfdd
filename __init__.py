"""Girih compiles neural networks for domain-specific accelerators, and simulates the result.

import girih
compiled = girih.compile("resnet50.onnx", target="stcp920", batch=32, precision="fp16", solver_timeout=60)
result = compiled.run(check=True)  # seeded random inputs; or run({"input": array})
print(result.cycles, compiled.explain())
compiled.save("resnet50.girih")
again = girih.load("resnet50.girih")

Everything is imported on first use, so that ``import girih`` costs nothing. Not even ``typing`` is: the command begins
here, and Ctrl-C is not yet handled.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .api.compile import Compiled as Compiled
    from .api.compile import compare as compare
    from .api.compile import compile as compile
    from .api.compile import load as load
    from .api.goals.pareto import pareto as pareto
    from .api.plugins.load_plugin import load_plugin as load_plugin
    from .api.run import Result as Result
    from .explain.compare.comparison import Comparison as Comparison
    from .explain.details.details import Details as Details
    from .explain.pareto.curve import Curve as Curve
    from .explain.report import Report as Report
    from .ir.custom_operators import CustomOperator as CustomOperator
    from .ir.custom_operators import register_operator as register_operator
    from .ir.errors import CheckError as CheckError
    from .ir.errors import GirihError as GirihError
    from .ir.errors import InfeasibleError as InfeasibleError
    from .ir.errors import UnsupportedError as UnsupportedError
    from .ir.errors import UsageError as UsageError
    from .ir.graph import Graph as Graph
    from .ir.load_machine import load_machine as load_machine
    from .ir.load_machine import machine_names as machine_names
    from .ir.machine import Machine as Machine
    from .ir.plan import Plan as Plan
    from .ir.program import Program as Program
    from .ir.trace import Trace as Trace
    from .lowering.schedule.tile_loops import compute_at_tile as compute_at_tile
    from .lowering.schedule.tile_loops import tile_loops as tile_loops
    from .lowering.schedule.tile_plan import TilePlan as TilePlan
    from .solver.options import Progress as Progress

    __version__: str

_FROM = {
    "compile": ".api.compile",
    "load": ".api.compile",
    "compare": ".api.compile",
    "pareto": ".api.goals.pareto",
    "Compiled": ".api.compile",
    "Result": ".api.run",
    "Report": ".explain.report",
    "Comparison": ".explain.compare.comparison",
    "Curve": ".explain.pareto.curve",
    "Details": ".explain.details.details",
    "Progress": ".solver.options",
    "load_plugin": ".api.plugins.load_plugin",
    "register_operator": ".ir.custom_operators",
    "CustomOperator": ".ir.custom_operators",
    "TilePlan": ".lowering.schedule.tile_plan",
    "tile_loops": ".lowering.schedule.tile_loops",
    "compute_at_tile": ".lowering.schedule.tile_loops",
    "load_machine": ".ir.load_machine",
    "machine_names": ".ir.load_machine",
    "Machine": ".ir.machine",
    "Graph": ".ir.graph",
    "Plan": ".ir.plan",
    "Program": ".ir.program",
    "Trace": ".ir.trace",
    "GirihError": ".ir.errors",
    "UsageError": ".ir.errors",
    "UnsupportedError": ".ir.errors",
    "InfeasibleError": ".ir.errors",
    "CheckError": ".ir.errors",
}

__all__ = [*_FROM]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("girih")
    from importlib import import_module

    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .api.held_interrupts import whole_imports

    with whole_imports():
        value = getattr(import_module(_FROM[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM, "__version__"})
