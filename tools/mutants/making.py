"""Creates the mutants of chosen functions with the operators of Cosmic Ray.

The choice depends only on the seed and on the text of each function, so that a change elsewhere does not change the
tested mutants.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

SEED = "2026"


@dataclass(frozen=True)
class Mutant:
    """A module's source with one change inside one function."""

    key: str
    """The key of the same change of the same line is the same in each run."""
    function: str
    line: int
    before: str
    after: str
    """The changed line without indentation, before and after."""
    source: str


@dataclass(frozen=True)
class _Place:
    key: str
    function: str
    operator: str
    occurrence: int
    start: tuple[int, int]


def mutants(source: str, functions: Iterable[str], most: int) -> list[Mutant]:
    """Return at most ``most`` mutants, in a fixed random order; at each position there is at most one mutant of a kind.

    Raises LookupError if a function (``name`` or ``Class.name``) is not in the source.
    """
    wanted = _spans(ast.parse(source), functions)
    found: list[Mutant] = []
    taken: set[tuple[str, tuple[int, int]]] = set()
    for place in sorted(_places(source, wanted), key=lambda place: place.key):
        kind = place.operator.partition("_")[0], place.start
        if len(found) == most:
            break
        if kind not in taken and (mutant := _made(source, place)):
            taken.add(kind)
            found.append(mutant)
    return found


def _spans(tree: ast.Module, functions: Iterable[str]) -> dict[str, range]:
    """Return the lines of each function's body."""
    known = {name: range(node.body[0].lineno, (node.end_lineno or 0) + 1) for name, node in _functions(tree)}
    if missing := sorted(set(functions) - known.keys()):
        raise LookupError(f"there is no function {', '.join(missing)}")
    return {name: known[name] for name in functions}


def _functions(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _places(source: str, wanted: dict[str, range]) -> Iterator[_Place]:
    tree = get_ast(source)
    lines = source.splitlines()
    nodes = list(ast_nodes(tree))
    alike: Counter[tuple[str, str, str]] = Counter()
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():  # needs the names of variables
            continue
        operator = operator_class()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(starts):
            function = next((function for function, span in wanted.items() if start[0] in span), None)
            if function is None:
                continue
            same = function, name, lines[start[0] - 1].strip()
            alike[same] += 1
            key = hashlib.sha256(repr((SEED, same, alike[same])).encode()).hexdigest()[:16]
            yield _Place(key, function, name, occurrence, start)


def _made(source: str, place: _Place) -> Mutant | None:
    """Return the mutant, or None if the program does not change (only an annotation does) or is invalid."""
    try:
        changed = mutate_code(source, get_operator(place.operator)(), place.occurrence)
        if changed is None or _program(changed) == _program(source):
            return None
    except (SyntaxError, AttributeError):  # ``**`` before a mapping is not an operator, and ``module.Error`` not a name
        return None
    number = place.start[0]
    before, after = (text.splitlines()[number - 1].strip() for text in (source, changed))
    return Mutant(place.key, place.function, number, before, after, changed)


def _program(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
    return ast.dump(tree)
