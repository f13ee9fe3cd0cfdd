"""The small changes that a source file can be given, by its syntax tree.

Two kept tools were tried. mutmut 3 writes its mutants into a folder ``mutants/``; the root of this repository is the
package, so that what the tests import as ``girih`` is not in there: it finds no test for any mutant and stops.
cosmic-ray 8 runs; but it has one test command for all files, changes the work tree in place, and its operators are few
where it counts: 187 of its 267 changes of ``simulator/timing/bandwidth.py`` are one arithmetic operator for another
(``+`` for ``<<``), which any test notices, and none deletes a statement, swaps ``min`` and ``max`` or two arguments, or
returns early. With copies, the choice of tests and sampling to write all the same, the operators are the small part.

Annotations, docstrings, assertions (``zip(strict=True)`` is one) and the texts of messages are left alone: changes of
those mean nothing to a test.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
SYMMETRIC = {*FUNCTIONS, "zip", "isinstance", "gcd", "lcm", "maximum", "minimum"}
EARLY = {"bool": (True, False), "int": (0, 1), "float": (0.0,)}
"""What a function with this return type returns instead; ``None`` for all others."""


@dataclass(frozen=True)
class Change:
    """A node of the tree and what takes its place; ``where`` is the parent's field and the index in it."""

    kind: str
    line: int
    before: str
    after: str
    parent: ast.AST
    where: tuple[str, int | None]
    replacement: ast.AST

    def apply(self, tree: ast.Module) -> str:
        """The source text of the whole changed file; ``tree``, which the parent is part of, stays as it was."""
        name, index = self.where
        held = getattr(self.parent, name)
        if index is None:
            setattr(self.parent, name, self.replacement)
        else:
            setattr(self.parent, name, [*held[:index], self.replacement, *held[index + 1 :]])
        text = ast.unparse(ast.fix_missing_locations(tree))
        setattr(self.parent, name, held)
        return text + "\n"


def changes(tree: ast.Module) -> list[Change]:
    """All changes of a file, in the order of its text."""
    return list(_below(tree, None))


def _below(node: ast.AST, returns: str | None) -> Iterator[Change]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if isinstance(child, ast.expr | ast.stmt):
                for kind, replacement in _replacements(child, returns):
                    before, after = (ast.unparse(ast.fix_missing_locations(n)) for n in (child, replacement))
                    if before != after:
                        yield Change(kind, child.lineno, before, after, node, (name, index), replacement)
            if isinstance(child, ast.Raise) or _is_message(child):
                continue
            inner = returns
            if isinstance(child, ast.FunctionDef):
                inner = ast.unparse(child.returns) if child.returns is not None else None
            yield from _below(child, inner)


def _is_message(node: ast.AST) -> bool:
    """A call of a function that raises an error with a message."""
    return isinstance(node, ast.Call) and "fail" in ast.unparse(node.func).lower()


def _replacements(node: ast.AST, returns: str | None) -> Iterator[tuple[str, ast.AST]]:
    """What may take the place of a node, and the kind of the change."""
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield "comparison", _with(node, ops=[other()])
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "constant", ast.Constant(node.value + 1)
            yield "constant", ast.Constant(node.value - 1)
        case ast.BoolOp():
            yield "and/or", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for dropped in range(len(node.values)):
                rest = [v for i, v in enumerate(node.values) if i != dropped]
                yield "condition dropped", rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "not" if isinstance(node.op, ast.Not) else "sign", node.operand
        case ast.BinOp():
            if type(node.op) in ARITHMETIC:
                yield "arithmetic", _with(node, op=ARITHMETIC[type(node.op)]())
        case ast.Call():
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called in FUNCTIONS:
                yield "min/max", _with(node, func=ast.Name(FUNCTIONS[called]))
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else called
            # Arguments of two sorts, such as a name and a number, are mostly of two types: too easy to notice.
            alike = len(node.args) >= 2 and type(node.args[0]) is type(node.args[1]) is not ast.Starred
            if alike and attribute not in SYMMETRIC:
                yield "arguments swapped", _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
        case ast.IfExp() | ast.If() | ast.While() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield "condition negated", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr() as value):
            for constant in EARLY.get(returns or "", (None,)):
                if not isinstance(value, ast.Constant):
                    yield "returned constant", ast.Return(ast.Constant(constant))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            yield "statement deleted", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement deleted", ast.Pass()
        case _:
            pass


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
