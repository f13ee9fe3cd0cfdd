"""The texts of Plan, Program and Report of two small networks are those that are kept beside this file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import girih
from girih.explain.details.details import Subjects
from girih.explain.plan_text import plan_text
from girih.ir.program import disassemble
from girih.models import build
from tests.support.cpsat import unhurried
from tests.support.golden import Golden

FOLDER = Path(__file__).parent
NETWORKS = ("tiny-cnn", "tiny-transformer")
NOUNS = ("plan", "program", "report", "details")
DETAILS = {
    "tiny-cnn": Subjects(("block.conv1",), ("maxpool",), ("0",), ("LLB",), ("residency",)),
    "tiny-transformer": Subjects(("layer.0.mlp.fc1.matmul",), ("layer.0.mlp.norm",), ("1",), ("L1",), ("tiling",)),
}


@cache
def compiled(network: str) -> girih.Compiled:
    """One round of every model, which deterministic limits alone end: the same plan however busy the machine is."""
    model = build(network).SerializeToString(deterministic=True)
    with unhurried():
        return girih.compile(model, target="tiny", batch=1, solver_timeout=4, cache=False)


def text(network: str, noun: str) -> str:
    found = compiled(network)
    if noun == "plan":
        return plan_text(found.plan)
    if noun == "program":
        return disassemble(found.program, tuple(memory.name for memory in found.machine.memories))
    if noun == "details":
        return str(found.details(**vars(DETAILS[network])))
    return found.explain().tables


def file_name(network: str, noun: str) -> str:
    return f"{network}.{noun}.txt"


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("network", NETWORKS)
def test_text_is_the_one_that_is_kept(network: str, noun: str, golden: Golden) -> None:
    golden.compare(FOLDER / file_name(network, noun), text(network, noun))


def test_every_kept_file_belongs_to_a_test(golden: Golden) -> None:
    golden.only(FOLDER, {file_name(network, noun) for network in NETWORKS for noun in NOUNS})
