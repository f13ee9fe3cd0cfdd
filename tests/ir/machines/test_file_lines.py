"""Lines of keys and tables are known in every form of TOML, however long its values and keys are."""

from __future__ import annotations

from pathlib import Path

import pytest

import girih.ir.load_machine
from girih.ir.errors import UsageError
from girih.ir.load_machine import parse_machine
from girih.ir.machines.file_lines import file_lines

TINY = (Path(girih.ir.load_machine.__file__).parent / "machines" / "tiny.toml").read_text()
RATE = next(line for line in TINY.splitlines() if line.startswith("rate ="))
DESCRIPTION = next(line for line in TINY.splitlines() if line.startswith("description ="))
FORMS = {
    "a text of several lines with what looks like the key": (
        {DESCRIPTION: 'description = """\ncores = 9\n"""', "cores = 2": "cores = 0"}, "cores = 0",
    ),
    "a text of several lines with what looks like a table": (
        {DESCRIPTION: "description = '''\n[[engines]]\nrows = 1\n'''", "rows = 8": "rows = -3"}, "rows = -3",
    ),
    "a comment with characters that end lines elsewhere": (
        {DESCRIPTION: f"{DESCRIPTION} # a\u2028b\x85c\u2029d", "rows = 8": "rows = -3"}, "rows = -3",
    ),
    "lines that end as on Windows": ({"\n": "\r\n", "rows = 8": "rows = -3"}, "rows = -3"),
    "a list over several lines": (
        {'reads = ["L1", "IM"]': 'reads = [\n"L1", # ]\n[],\n]'}, "reads = [",
    ),
    "a dotted key": ({RATE: "rate.float16 = 1.0\nrate.float32 = -1.0"}, "rate.float32 = -1.0"),
    "a quoted dotted key": ({RATE: "rate . \"float16\" = 1.0\n'rate'.float32 = -1.0"}, "'rate'.float32 = -1.0"),
    "a quoted key": ({"rows = 8": '"rows" = -3'}, '"rows" = -3'),
    "a quoted header": ({"[[engines]]": '[["engines"]]', "rows = 8": "rows = -3"}, "rows = -3"),
    "a header with blanks": ({"[[engines]]": "  [[ engines ]] # [[links]]", "rows = 8": "rows = -3"}, "rows = -3"),
    "a table in a table": ({RATE: "", "[[engines]]\nname = \"VME\"": "[engines.'rate']\nfloat32 = -1.0\n[[engines]]\n"
                            'name = "VME"'}, "float32 = -1.0"),
    "tables as a list": (
        {TINY[TINY.index("[[links]]"):]: "", "cores = 2": "cores = 2\nlinks = [\n  { name = 1 },\n]"}, "links = [",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_mistakes_are_reported_with_their_line_in_any_form_of_toml(form: str) -> None:
    changes, where = FORMS[form]
    text = TINY
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    line = next(number for number, content in enumerate(text.split("\n"), 1) if content.rstrip() == where)
    with pytest.raises(UsageError, match=rf"^mine.toml:{line}: "):
        parse_machine(text, "mine.toml")


@pytest.mark.parametrize("text", ["a." * 3000 + "a = 1\n", "[[engines]]\nname = 'x'\nrate." + "b." * 1500 + "b = 1\n"])
def test_keys_may_have_any_number_of_dots(text: str) -> None:
    with pytest.raises(UsageError, match="the key 'frequency' is missing"):
        parse_machine(text, "f.toml")


def test_lines_are_known_up_to_a_value_that_is_too_long_to_look_through() -> None:
    """The parser is asked a few times only, so that time does not grow with the square of the lines."""
    for rows in (60, 200_000):
        lines = file_lines("a = 1\nextra = [\n" + "  [1],\n" * rows + "]\nb = 2\n")
        assert lines["a"] == 1 and lines.get("b") == (rows + 4 if rows == 60 else None)
    assert file_lines('a = """\n' + "no end\n" * 1000 + '"""\nb = 2\n')["b"] == 1003
