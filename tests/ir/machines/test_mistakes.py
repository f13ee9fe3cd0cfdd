"""Every mistake in a machine file is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

import girih.ir.load_machine
from girih.ir.errors import UsageError
from girih.ir.load_machine import parse_machine

TINY = (Path(girih.ir.load_machine.__file__).parent / "machines" / "tiny.toml").read_text()


def line_of(text: str, number: int = 1) -> int:
    """The line of the n-th occurrence of a text in the machine file."""
    lines = [i for i, line in enumerate(TINY.splitlines(), 1) if text in line]
    return lines[number - 1]


MISTAKES = {
    "unknown key": ("cores = 2", "coers = 2", line_of("cores = 2"), "unknown key 'coers'; did you mean 'cores'"),
    "unknown key of a memory": ("banks = 4", "bansk = 4", line_of("banks = 4"), "did you mean 'banks'"),
    "missing key": ("frequency = 1.0e9\n", "", 1, "the key 'frequency' is missing"),
    "missing key of a table": ("capacity = 65536\n", "", line_of("[[memories]]", 3), "'capacity' is missing"),
    "negative": ("capacity = 65536", "capacity = -1", line_of("capacity = 65536"), "capacity of L1 must be greater"),
    "zero": ("clusters = 2", "clusters = 0", line_of("clusters = 2"), "clusters must be greater than 0"),
    "wrong type": (
        "capacity = 65536",
        'capacity = "64K"',
        line_of("capacity = 65536"),
        "capacity must be a whole number, not a text",
    ),
    "wrong type inside": (
        "lanes = { float32 = 8",
        "lanes = { float32 = []",
        line_of("lanes ="),
        "lanes for float32 must be a whole number, not a list",
    ),
    "a role": ("banks = 4", 'banks = 4\nrole = "local"', line_of("banks = 4") + 1, "roles follow from the engines"),
    "scope of a memory": (
        'name = "LLB"\nscope = "cluster"',
        'name = "LLB"\nscope = "core"',
        line_of('writes = ["LLB"]', 2),
        "DMR is a cluster's engine, and LLB belongs to a core",
    ),
    "unknown memory": (
        'reads = ["LLB", "L1"]',
        'reads = ["L2", "L1"]',
        line_of('reads = ["LLB", "L1"]'),
        "unknown memory 'L2'",
    ),
    "unknown class": (
        'classes = ["matrix"]',
        'classes = ["tensor"]',
        line_of('["matrix"]'),
        "unknown instruction class",
    ),
    "unknown dtype": ("rate = { float32 = 1.0", "rate = { fp8 = 1.0", line_of("rate ="), "unknown dtype 'fp8'"),
    "same name but for case": (
        'name = "IM"',
        'name = "l1"',
        line_of('name = "IM"'),
        "two of the memories are named 'l1'; names must differ in",
    ),
    "same name": ('name = "IM"', 'name = "L1"', line_of('name = "IM"'), "two of the memories are named 'L1'"),
    "no lanes": ("special = 4", "special = 0", line_of("special = 4"), "special of VME"),
    "engine without shape": ("rows = 8\n", "", line_of("[[engines]]", 1), "needs rows"),
    "link to nowhere": ('memory = "DDR"', 'memory = "HBM"', line_of('memory = "DDR"'), "unknown memory 'HBM'"),
    "a link to nowhere beside another": (
        'memory = "DDR"',
        'memory = ["DDR", "HBM"]',
        line_of('memory = "DDR"'),
        "unknown memory 'HBM'",
    ),
    "a link that limits a memory twice": (
        'memory = "DDR"',
        'memory = ["DDR", "DDR"]',
        line_of('memory = "DDR"'),
        "limits a memory twice: DDR, DDR",
    ),
    "a link of no memory": (
        'memory = "DDR"',
        "memory = []",
        line_of('memory = "DDR"'),
        "memory is an empty list; name at least one",
    ),
    "a link of memories of two scopes": (
        'memory = "DDR"',
        'memory = ["DDR", "L1"]',
        line_of('memory = "DDR"'),
        r"memories of different scopes \(DDR of a cluster, L1 of a core\)",
    ),
    "not TOML": ("cores = 2", "cores = = 2", line_of("cores = 2"), "not valid TOML"),
    "banks": ("banks = 4", "banks = 3", line_of("banks = 4"), "the 3 banks of L1 must divide its capacity"),
    "no way": (
        'writes = ["L1", "L1W"]',
        'writes = ["L1"]',
        line_of("[[engines]]", 3),
        r"reads the shared memory \(LLB\) and writes the weights",
    ),
    "a memory that is missing": (
        TINY[TINY.index('\n[[memories]]\nname = "L1W"') : TINY.index('\n[[memories]]\nname = "IM"')],
        "",
        line_of('weights = ["L1W"]') - 8,
        "MME takes weights from an unknown memory 'L1W'",
    ),
    "no activations": (
        'reads = ["L1", "IM"]\nweights',
        'reads = ["IM"]\nweights',
        line_of("[[memories]]", 3),
        r"no memory .scope \"core\"\) that has the data of a core; L1 comes nearest, but no matrix engine of a core reads it",
    ),
    "no results": (
        'writes = ["IM"]',
        'writes = ["L1W"]',
        line_of("[[memories]]", 5),
        "takes the results of a matrix engine; IM comes nearest, but no matrix engine writes it",
    ),
    "a memory that nothing reaches": (
        "[[engines]]",
        '[[memories]]\nname = "ROM"\nscope = "cluster"\ncapacity = 1024\nalignment = 32\n[[engines]]',
        line_of("[[engines]]"),
        "no engine reads or writes ROM",
    ),
    "a way into a read-only memory": (
        'name = "DDR"',
        'name = "DDR"\nread_only = true',
        line_of('writes = ["DDR"]') + 1,
        "DMW writes DDR, which is read_only; take it out of writes, or read_only out of DDR",
    ),
    "no operations": (
        "operations_per_cycle = 1.0",
        "operations_per_cycle = 0.0",
        line_of("operations_per_cycle"),
        r"^[^\n]*operations_per_cycle of SCU must be greater than 0, not 0.0[^\n]*$",
    ),
    "staging memories in a circle": (
        '[[engines]]\nname = "MME"\nscope = "core"\nclasses = ["matrix"]\nreads = ["L1", "IM"]',
        '[[memories]]\nname = "A"\nscope = "core"\ncapacity = 4096\nalignment = 32\nbytes_per_cycle = 8\n'
        '[[memories]]\nname = "B"\nscope = "core"\ncapacity = 4096\nalignment = 32\nbytes_per_cycle = 8\n'
        '[[engines]]\nname = "AB"\nscope = "core"\nclasses = ["copy"]\nreads = ["A", "B"]\nwrites = ["A", "B"]\n'
        "issue = 1\nlatency = 1\nbytes_per_cycle = 1\n"
        '[[engines]]\nname = "MME"\nscope = "core"\nclasses = ["matrix"]\nreads = ["A", "IM"]',
        line_of("[[engines]]"),
        "nothing comes to A: AB can bring there what is in A and B alone, a circle without a source; let an engine that "
        "reads DDR or LLB or L1 or L1W or IM write it",
    ),
    "read_only is a switch": (
        'name = "DDR"',
        'name = "DDR"\nread_only = "yes"',
        line_of('name = "DDR"') + 1,
        "read_only must be a switch, not a text",
    ),
    "ways in a circle that no memory outside of the core enters": (
        'reads = ["LLB", "L1"]',
        'reads = ["L1"]',
        line_of("[[memories]]", 3),
        "nothing comes to L1: VME and MTI can bring there what is in L1 and IM alone, a circle without a source; let an "
        "engine that reads DDR or LLB write it",
    ),
    "a rate of nothing": (
        TINY.splitlines()[line_of("rate =") - 1],
        "rate = {}",
        line_of("rate ="),
        "MME runs matrix instructions, and needs rate for at least one dtype",
    ),
    "lanes of nothing": (
        TINY.splitlines()[line_of("lanes =") - 1],
        "lanes = {}",
        line_of("lanes ="),
        "VME runs vector instructions, and needs lanes for at least one dtype",
    ),
    "a rate of zero": (
        "{ float32 = 1.0",
        "{ float32 = 0",
        line_of("rate ="),
        "rate of MME for float32 must be greater than 0",
    ),
    "an engine of no bytes": (
        "bytes_per_cycle = 16\n",
        "bytes_per_cycle = 0\n",
        line_of("bytes_per_cycle = 16"),
        "MTI runs copy and broadcast instructions, and needs bytes_per_cycle of more than 0",
    ),
    "a link of no bytes": (
        "bytes_per_cycle = 8.0",
        "bytes_per_cycle = 0",
        line_of("bytes_per_cycle = 8.0"),
        "bytes_per_cycle of ddr must be greater than 0, not 0",
    ),
    "unknown table": ("[[links]]", "[[lnks]]\n[[links]]", line_of("[[links]]"), "did you mean 'links'"),
    "wrong direction": ('"both"', '"up"', line_of('"both"'), "direction cannot be 'up'; known are read, write, both"),
    "too large": ("capacity = 65536", f"capacity = {2**40}", line_of("capacity = 65536"), "at most 1,099,511,627,775"),
    "interleave": ("interleave = 1024", "interleave = 100", line_of("interleave"), r"multiple of its alignment \(32\)"),
    "alignment of three": ("alignment = 32", "alignment = 3", line_of("alignment"), "must be at least 8, not 3"),
    "alignment of 24": ("alignment = 32", "alignment = 24", line_of("alignment"), "a power of two, such as 16, not 24"),
    "alignment of half an element": (
        "alignment = 32",
        "alignment = 4",
        line_of("alignment"),
        "must be at least 8, not 4",
    ),
    "alignment above the capacity": (
        "capacity = 16384\nalignment = 32",
        "capacity = 16384\nalignment = 32768",
        line_of("alignment", 4),
        r"alignment of L1W \(32,768\) must be at most its capacity \(16,384\)",
    ),
    "too many cores": ("cores = 2", "cores = 65", line_of("cores = 2"), "cores must be at most 64, not 65"),
    "a delay of years": ("latency = 50", f"latency = {10**30}", line_of("latency = 50"), "one of more than 64 bits"),
    "a number of 5,000 digits": ("cores = 2", f"cores = 2{'0' * 5000}", 1, "not valid TOML"),
    "lists in lists": ("cores = 2", f"cores = {'[' * 9999}", 1, "not valid TOML"),
    "not a number": ("bytes_per_cycle = 8.0", "bytes_per_cycle = nan", line_of("bytes_per_cycle = 8.0"), "at least"),
    "almost nothing": (
        "{ float32 = 1.0",
        "{ float32 = 1e-300",
        line_of("rate ="),
        "rate of MME for float32 must be at least 1/1024, not 1e-300",
    ),
    "a name of two lines": (
        'name = "MME"',
        'name = "M\\nE"',
        line_of('"MME"'),
        r"'M\\nE' is no name for one of the engines",
    ),
    "no name": ('name = "tiny"', 'name = " "', line_of('"tiny"'), "name must be a line of 1 to 80 characters"),
    "an engine named as a link": (
        'name = "MME"',
        'name = "ddr"',
        line_of('name = "ddr"'),
        "engines and links are named",
    ),
    "queues of one name": (
        'name = "HOST"',
        'name = "MME1"',
        line_of('"HOST"'),
        "queues of MME1 and MME are both called",
    ),
    "an engine of no class": ('["dma"]', "[]", line_of('["dma"]'), "DMR runs nothing; classes are matrix"),
    "matrix engine of no activations": (
        'reads = ["L1", "IM"]\nweights',
        'reads = ["L1"]\nweights',
        line_of("[[engines]]", 1),
        r"that reads the local memory \(L1\), the accumulator memory \(IM\) and the weights memory",
    ),
    "a number where types belong": (
        "rate = { float32 = 1.0, float16 = 1.0 }",
        "rate = 1.0",
        line_of("rate ="),
        r"rate must be a table such as { float16 = 1.0 }, not a number \(in engines\[0\].rate\)",
    ),
    "a number where names belong": (
        'memory = "DDR"',
        "memory = 5",
        line_of('memory = "DDR"'),
        "memory must be a text or a list, not a whole number",
    ),
    "a number among names": (
        'memory = "DDR"',
        'memory = ["DDR", 5]',
        line_of('memory = "DDR"'),
        "every entry of memory must be a text, not a whole number",
    ),
    "an engine that reads nothing": (
        'reads = ["LLB", "L1"]',
        "reads = []",
        line_of('reads = ["LLB", "L1"]'),
        r"^mine.toml:\d+: MTI reads no memory; name one in reads \(in engines\[2\].reads\)\nmine.toml:\d+: nothing comes to L1",
    ),
    "not tables": ("[[links]]", "[links]", 1, "not valid TOML"),
    "a negative size that may not be 0 either": (
        "rows = 8",
        "rows = -3",
        line_of("rows = 8"),
        "rows of MME must be greater than 0, not -3",
    ),
    "a negative size that may be 0": (
        "issue = 4",
        "issue = -4",
        line_of("issue = 4"),
        "issue of MME must be at least 0, not -4",
    ),
    "a class of a spelling that is close": (
        'classes = ["vector"]',
        'classes = ["vectors"]',
        line_of('["vector"]'),
        r"^mine.toml:\d+: unknown instruction class 'vectors'; known are [a-z, ]+ \(in engines\[1\].classes\)$",
    ),
    "an engine that reads a memory twice": (
        'reads = ["LLB", "L1"]',
        'reads = ["LLB", "L1", "LLB"]',
        line_of('reads = ["LLB", "L1"]'),
        r"MTI reads LLB twice; name it once \(in engines\[2\].reads\)",
    ),
    "an engine that takes weights from a memory twice": (
        'weights = ["L1W"]',
        'weights = ["L1W", "L1W"]',
        line_of('weights = ["L1W"]'),
        "MME takes weights from L1W twice; name it once",
    ),
    "an engine of a class twice": (
        '["copy", "broadcast"]',
        '["copy", "broadcast", "copy"]',
        line_of('["copy", "broadcast"]'),
        "MTI runs copy twice; name it once",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_reported_with_their_line(name: str) -> None:
    right, wrong, line, message = MISTAKES[name]
    assert right in TINY
    with pytest.raises(UsageError, match=message) as caught:
        parse_machine(TINY.replace(right, wrong, 1), "mine.toml")
    if name != "not tables":
        assert str(caught.value).startswith(f"mine.toml:{line}: ")


def test_a_file_that_is_no_toml_has_the_line_that_its_parser_says() -> None:
    with pytest.raises(UsageError, match=r"^mine.toml:2: not valid TOML"):
        parse_machine("['line 7']\n['line 7']\n", "mine.toml")


def test_all_problems_of_a_file_are_told_at_once() -> None:
    text = (
        TINY.replace("banks = 4", "banks = 3")
        .replace("rows = 8", "rows = -8")
        .replace('memory = "DDR"', 'memory = "D"')
    )
    with pytest.raises(UsageError) as caught:
        parse_machine(text, "mine.toml")
    reported = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in reported] == [
        str(line_of(t)) for t in ("rows = 8", "banks = 4", 'memory = "DDR"')
    ]
    assert all(line.startswith("mine.toml:") for line in reported)


def test_all_keys_and_types_that_are_wrong_are_told_at_once() -> None:
    text = (
        TINY.replace("cores = 2", "core = 2")
        .replace("capacity = 65536", "capcity = 65536")
        .replace('scope = "core"', 'scope = "chore"', 1)
        .replace("issue = 4", 'issue = "4"', 1)
        .replace("float32 = 8,", "float32 = 8.5,")
    )
    with pytest.raises(UsageError) as caught:
        parse_machine(text, "mine.toml")
    assert [line.split(": ", 1)[1] for line in str(caught.value).splitlines()] == [
        "unknown key 'core'; did you mean 'cores'? (in core)",
        "scope cannot be 'chore'; known are chip, cluster, core (in memories[2].scope)",
        "unknown key 'capcity'; did you mean 'capacity'? (in memories[2].capcity)",
        "issue must be a whole number, not a text (in engines[0].issue)",
        "lanes for float32 must be a whole number, not a fraction (in engines[1].lanes.float32)",
    ]


@pytest.mark.parametrize(("value", "message"), [
    ("0", "rate of MME for float16 must be greater than 0"),
    ('"fast"', "rate for float16 must be a number, not a text"),
])  # fmt: skip
def test_the_line_of_a_dtype_in_a_table_of_its_own(value: str, message: str) -> None:
    inline = next(line for line in TINY.splitlines() if line.startswith("rate ="))
    table = f"\n[engines.rate]\nfloat32 = 1.0\nfloat16 = {value}\n\n[[engines]]"
    text = TINY.replace(inline, "", 1).replace("\n[[engines]]", "\n[[+]]", 1).replace("\n[[engines]]", table, 1)
    text = text.replace("[[+]]", "[[engines]]")
    line = text.splitlines().index(f"float16 = {value}") + 1
    with pytest.raises(UsageError, match=rf"^mine.toml:{line}: {message}"):
        parse_machine(text, "mine.toml")
