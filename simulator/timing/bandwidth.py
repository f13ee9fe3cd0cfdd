"""How bandwidth is shared: links among the transfers in flight, banks among all that touch them."""

from __future__ import annotations

from collections.abc import Sequence

Flow = tuple[tuple[tuple[int, float], ...], float]
"""What a transfer asks for: (link, bytes per unit of work) for each link it crosses, and the most work a cycle."""


def max_min(flows: Sequence[Flow], counts: Sequence[int], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates (work a cycle) of flows that each occur ``counts`` times on links of ``capacity``.

    All rates rise together; a flow stops at its own cap, or when one of its links is full.
    """
    rates = [0.0] * len(flows)
    spare = {link: capacity[link] for links, _ in flows for link, _ in links}
    rising = list(range(len(flows)))
    while rising:
        load = dict.fromkeys(spare, 0.0)
        for i in rising:
            for link, weight in flows[i][0]:
                load[link] += weight * counts[i]
        level = min(flows[i][1] for i in rising)
        for link, total in load.items():
            if total and spare[link] / total < level:
                level = spare[link] / total
        full = {link for link, total in load.items() if total and spare[link] / total <= level}
        still: list[int] = []
        for i in rising:
            links, cap = flows[i]
            if cap <= level or any(link in full for link, _ in links):
                rates[i] = level
                for link, weight in links:
                    spare[link] = max(0.0, spare[link] - level * weight * counts[i])
            else:
                still.append(i)
        rising = still
    return rates


class BankContention:
    """The demand on every bank, in bytes a cycle, and who makes it.

    Where the demand on a bank exceeds what it serves, all that touch it are slowed in proportion. ``disturbed``
    collects the users of banks that are, or were, overloaded.
    """

    def __init__(self, capacity: Sequence[float]) -> None:
        self._capacity = capacity
        self._demand = [0.0] * len(capacity)
        self._users: list[set[int]] = [set() for _ in capacity]
        self._overloaded: set[int] = set()
        self.disturbed: set[int] = set()

    def change(self, user: int, banks: tuple[tuple[int, float], ...], old: float, new: float) -> None:
        """``user``'s demand on its ``banks`` (bytes per unit of work) goes from rate ``old`` to rate ``new``."""
        for bank, weight in banks:
            users = self._users[bank]
            if new:
                users.add(user)
                demand = self._demand[bank] + weight * (new - old)
            else:
                users.discard(user)
                # Exactly zero when the last one leaves, so that rounding errors do not add up.
                demand = self._demand[bank] - weight * old if users else 0.0
            self._demand[bank] = demand
            if demand > self._capacity[bank] * (1 + 1e-9):
                self._overloaded.add(bank)
                self.disturbed |= users
            elif bank in self._overloaded:
                self._overloaded.discard(bank)
                self.disturbed |= users

    def slowdown(self, banks: tuple[tuple[int, float], ...]) -> tuple[float, int]:
        """The part of its rate that a user of ``banks`` keeps, and the bank that limits it (-1: none)."""
        kept, limit = 1.0, -1
        if self._overloaded:
            for bank, _ in banks:
                if bank in self._overloaded:
                    part = self._capacity[bank] / self._demand[bank]
                    if part < kept:
                        kept, limit = part, bank
        return kept, limit
