"""Words that depend on the machine of ``--target``, for the shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from ....ir.errors import GirihError
from ...options import DEFAULT_TARGET


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The built-in machines, and files."""
    from ....ir.load_machine import machine_names

    names = [CompletionItem(n) for n in machine_names() if n.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def complete_memory(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The memories of which there can be less."""
    return [CompletionItem(name) for name in _memories(ctx) if name.startswith(incomplete)]


def complete_goal(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a plan can have least of: cycles, or the bytes of a memory of the machine."""
    goals = ["cycles", *(f"peak:{name}" for name in _memories(ctx))]
    return [CompletionItem(goal) for goal in goals if goal.startswith(incomplete)]


def _memories(ctx: click.Context) -> list[str]:
    """Memories that the machine uses which ``--target`` before this word says; none of a file with mistakes."""
    from ....ir.load_machine import load_machine
    from ....solver.reduced_machine import reducible

    try:
        return [memory.name for memory in reducible(load_machine(ctx.params.get("target") or DEFAULT_TARGET))]
    except GirihError:
        return []
