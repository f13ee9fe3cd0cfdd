"""One memory as text."""

from __future__ import annotations

from collections.abc import Sequence

from ...memory_use import FULL
from ...units import plural, share, size
from ..memory_details import BufferRow, MemoryDetails
from .tables import count, pairs, table, title

_LEVELS = " ▁▂▃▄▅▆▇█"


def memory_text(memory: MemoryDetails, width: int) -> list[str]:
    """How full it gets and when, what fills it then, its use over time, and what its banks cost."""
    banks = plural(memory.banks, "bank")
    apart = f", {memory.interleave} bytes in each in turn" if memory.interleave else ", one after the other"
    scope = {"core": "of each core", "cluster": "of the cluster", "chip": "of the chip"}[memory.scope]
    rows = [
        ("what", f"{memory.role} memory {scope}: {memory.capacity:,} bytes"),
        ("banks", f"{banks}{apart if memory.banks > 1 else ''}; each serves {memory.bytes_per_cycle} bytes a cycle"),
        (
            "peak",
            f"{memory.peak:,} bytes, {share(memory.peak, memory.capacity)} of it: {memory.at}, step {memory.step}",
        ),
        ("of these", f"activations take at most {memory.activations:,} bytes, constants {memory.constants:,}"),
        ("when", f"at cycle {count(memory.cycle)} of the prediction"),
        ("highest", f"{memory.extent:,}: end of the last buffer; what lies between is lost to fragmentation"),
    ]
    if memory.peak >= FULL * memory.capacity:
        rows.append(("means", "it may limit the plan: try more of it, a smaller batch or --precision fp16"))
    else:
        rows.append(("means", "it has room left even at its peak, so that it is hardly what limits the plan"))
    if memory.conflicts is not None:
        rows.append(("conflicts", f"{count(memory.conflicts)} cycles lost at banks in the run, all engines added up"))
    lines = [*title(f"Memory {memory.name}", width), *pairs(rows, width)]

    lines += title("Use over time: the most bytes of buffers that live, by predicted cycles", width)
    lines += profile_text(memory.profile, memory.capacity, memory.period, width)

    shown = len(memory.filling)
    most = f"the {shown} largest of " if shown < memory.buffers else ""
    lines += title(f"What fills it at the peak: {most}{plural(memory.buffers, 'buffer')}", width)
    cells = [
        (b.name, b.use, size(b.bytes), share(b.bytes, memory.peak), f"{b.address:#x}", _steps(b), b.until[0])
        for b in memory.filling
    ]
    heads = "buffer|use|size|of peak|address|steps|kept until"
    if all(b.use == "data" for b in memory.filling):
        heads, cells = heads.replace("use|", ""), [(name, *others) for name, _, *others in cells]
    return [*lines, *table(heads, cells, width)]


def _steps(b: BufferRow) -> str:
    return f"{b.since[1]} to {b.until[1]}" if b.since[1] != b.until[1] else str(b.since[1])


def profile_text(profile: Sequence[int], capacity: int, period: float, width: int) -> list[str]:
    """A curve of two lines of blocks, from nothing to the capacity, over an axis of cycles."""
    labels = [size(capacity), size(capacity // 2)]
    margin = max(map(len, labels))
    room = max(10, min(len(profile), width - margin - 5))
    group = -(-len(profile) // room)
    levels = [max(profile[i : i + group]) for i in range(0, len(profile), group)]
    height = 2 * (len(_LEVELS) - 1)
    # Whatever is in use is seen, however little it is.
    filled = [max(1, round(height * level / capacity)) if level else 0 for level in levels]
    lines: list[str] = []
    for row, label in zip((1, 0), labels, strict=True):
        blocks = "".join(_LEVELS[min(8, max(0, f - 8 * row))] for f in filled)
        lines.append(f"  {label.rjust(margin)} |{blocks}|")
    end = f"{period * len(profile):,.0f} cycles"
    axis = f"0{end.rjust(len(levels) - 1)}" if len(end) < len(levels) else f"0 .. {end}"
    return [*lines, f"  {' ' * margin}  {axis}"]
