"""What a compilation owes to plugins: their contents are part of its provenance, their lines of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...ir.custom_operators import operators
from ...ir.errors import InfeasibleError, UsageError
from ...ir.graph import Graph
from .load_plugin import load_installed

if TYPE_CHECKING:
    from ...frontend.onnx.load import ModelSource

PLUGIN = "plugin "
"""What a plugin's key among the versions of a compiled file begins with."""


def plugin_versions() -> dict[str, str]:
    """The SHA-256 of each file that has registered operators, by its name: part of what compiled a network."""
    files = sorted({(Path(o.file).name, o.sha256, o.file) for o in operators() if Path(o.file).is_file()})
    names = [name for name, _, _ in files]
    rows: dict[str, str] = {}
    for number, (name, digest, _) in enumerate(files):
        again = names[:number].count(name)
        rows[f"{PLUGIN}{name}" + (f" ({again + 1})" if again else "")] = digest
    return rows


def check_plugins(compiled_by: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` unless the plugins that a network was compiled with are loaded, as they were then."""
    load_installed()
    present = plugin_versions()
    for name, digest in compiled_by.items():
        if not name.startswith(PLUGIN) or digest in present.values():
            continue
        file = name.removeprefix(PLUGIN)
        if name not in present:
            raise UsageError(f"the network was compiled with the plugin {file}: load it too, as with --plugin {file}")
        raise UsageError(
            f"the plugin {file} was changed since the network was compiled (SHA-256 {digest[:12]}, now "
            f"{present[name][:12]}); compile it again"
        )


def with_places(error: InfeasibleError, graph: Graph, model: ModelSource) -> InfeasibleError:
    """The error, with the file and line of each custom operator that is in an operator that it names."""
    from ...frontend.custom.nodes import custom_nodes

    custom = custom_nodes(model) if operators() else {}
    named = [op for op in graph.ops if f"operator {op.name}:" in str(error)]
    places = dict.fromkeys(f"{custom[n].key} ({custom[n].place})" for op in named for n in op.origin if n in custom)
    return InfeasibleError(f"{error}; it holds the custom operator {' and '.join(places)}") if places else error
