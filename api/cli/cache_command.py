"""``girih cache``: shows or clears the cache of plans, programs and kernels."""

from __future__ import annotations

from pathlib import Path

import click

from ...explain.units import plural, size
from ...ir.errors import UsageError
from .output import JSON_OPTION, emit

KINDS = ("plan", "program", "kernel")


@click.command("cache", short_help="Show or clear what is kept of earlier compilations.")
@click.argument("action", type=click.Choice(("info", "clear")), default="info")
@click.option("--cache", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Instead of the default one.")
@JSON_OPTION
def cache_command(action: str, folder: Path | None, as_json: bool) -> None:
    """Show what is kept of earlier compilations, or clear it.

    A repeated compilation takes its plan and its program from the cache, and another plan the kernels of operators
    that are tiled as before. Their keys are contents: network, machine,
    options and the sources of the compiler, whatever the files are called. The folder is the user's
    own, or what the environment variable GIRIH_CACHE names (off: none), or what --cache says. Processes and users may
    share one; whoever can write there can change what others compile. The longest unused entries make room for new
    ones.

    \b
    Examples:
      girih cache
      girih cache info --json
      girih cache clear --cache /srv/girih-cache
    """
    from ..cache import OFF, VARIABLE, open_cache

    store = open_cache(folder or True).store
    if store is None:
        raise UsageError(f"the cache is switched off by {VARIABLE}={OFF}; name one with --cache DIR")
    if action == "clear":
        cleared = store.clear()
        entries = cleared.deleted
        if cleared.kept:
            raise UsageError(
                f"{store.folder}: {len(cleared.kept):,} of {len(cleared.kept) + len(entries):,} files cannot be "
                "deleted, and stay; clear the cache as a user who may write there"
            )
    else:
        entries = store.entries()
    counts = {kind: sum(1 for e in entries if e.kind == kind) for kind in KINDS}
    total = sum(e.bytes for e in entries)
    data = {
        "status": "ok",
        "folder": str(store.folder),
        "cleared": action == "clear",
        "plans": counts["plan"],
        "programs": counts["program"],
        "kernels": counts["kernel"],
        "bytes": total,
        "limit_bytes": store.limit,
    }
    kinds = [plural(counts[kind], kind) for kind in KINDS]
    contents = f"{', '.join(kinds[:-1])} and {kinds[-1]}, {size(total)}"
    done = "deleted" if action == "clear" else f"at most {size(store.limit)}"
    emit(as_json, data, f"{store.folder}: {contents}; {done}")
