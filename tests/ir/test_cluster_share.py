"""Memories of the chip: each cluster has an equal share."""

from __future__ import annotations

from dataclasses import replace

import girih
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.models import build


def of_the_chip(machine: Machine, name: str) -> Machine:
    """With one memory for all clusters that has as much as all of theirs."""
    many = machine.clusters
    memories = (
        replace(m, scope="chip", capacity=many * m.capacity, bytes_per_cycle=many * m.bytes_per_cycle)
        if m.name == name else m
        for m in machine.memories
    )  # fmt: skip
    links = (replace(x, bytes_per_cycle=many * x.bytes_per_cycle) if x.memory == name else x for x in machine.links)
    return replace(machine, memories=tuple(memories), links=tuple(links))


def test_as_much_for_all_clusters_together_is_the_same_machine() -> None:
    machine = load_machine("stcp920")
    assert machine.clusters == 4
    assert as_planned(of_the_chip(machine, "DDR")) == machine
    assert as_planned(machine) is machine


def test_two_clusters_on_one_memory_take_longer_than_one() -> None:
    network = build("tiny-cnn").SerializeToString(deterministic=True)
    one = replace(load_machine("tiny"), clusters=1)
    one = replace(one, memories=tuple(replace(m, scope="chip") if m.name == "DDR" else m for m in one.memories))
    two = replace(one, clusters=2)
    cycles = [
        girih.compile(network, target=m, batch=2 * m.clusters, strategy="layerwise", cache=False)
        .run(check="exact")
        .cycles
        for m in (one, two)
    ]
    assert 1.2 * cycles[0] < cycles[1] <= 2 * cycles[0]
