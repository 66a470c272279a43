"""The hint ``query``: Nova's condition on hosts as JSON, ``["and", [">=", "$free_ram_mb", 1024], …]``."""

import json
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from provisioning.common.errors import InvalidInputError
from provisioning.scheduler.condition import HostFilter, are, hosts_in_words
from provisioning.scheduler.flavor_demands import LISTS, NUMBERS, WORDS
from provisioning.scheduler.spec import HostState, RequestSpec

FIELD = "query"
LONGEST = 4096
"""Maximum number of characters of a query as text."""
DEEPEST = 8
"""Maximum number of levels of nested conditions."""
MOST_PARTS = 100
"""Maximum number of operators and operands of a query."""
LONGEST_WORD = 255
GREATEST = 1 << 63
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_LOGIC = ("and", "or", "not")


class Operand(NamedTuple):
    """An operand of a condition: its kind, and a function that reads its value from a host (None: not reported)."""

    kind: str
    of: Callable[[HostState], Any]


def check_query(query: object) -> list[Any]:
    """Return a query, given as JSON text or as lists, as lists. Raises InvalidInputError with the reason."""
    result = _parsed(query) if isinstance(query, str) else query
    if not isinstance(result, list) or not result:
        raise _invalid('it must be a condition like [">=", "$free_ram_mb", 1024].')
    if _parts(result, DEEPEST) > MOST_PARTS:
        raise _invalid(f"it has more than {MOST_PARTS} parts.")
    _condition(result)
    return result


def compiled(query: object) -> Callable[[HostState], bool]:
    """Return a query as a function. Raises InvalidInputError for a query that ``check_query`` rejects."""
    judge: Callable[[HostState], bool] = _condition(check_query(query)).of
    return judge


def _parsed(text: str) -> Any:
    if len(text) > LONGEST:
        raise _invalid(f"it has more than {LONGEST} characters.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid("it is not JSON.") from None


def _parts(query: list[Any], deepest: int) -> int:
    """Count operators and operands; stop as soon as there are more than the maximum."""
    if not deepest:
        raise _invalid(f"its conditions are nested more than {DEEPEST} levels deep.")
    count = 0
    for part in query:
        count += _parts(part, deepest - 1) if isinstance(part, list) else 1
        if count > MOST_PARTS:
            break
    return count


def _condition(query: list[Any]) -> Operand:
    if not query:
        raise _invalid("one of its conditions is empty.")
    sign, *parts = query
    if not isinstance(sign, str) or sign not in {*_COMPARISONS, *_LOGIC, "in"}:
        raise _invalid(f"{_shown(sign)} is not one of {', '.join([*_COMPARISONS, 'in', *_LOGIC])}.")
    operands = [_operand(part) for part in parts]
    if sign in _LOGIC:
        return Operand("condition", _logic(sign, operands))
    if len(operands) < 2:
        raise _invalid(f"{sign!r} needs at least two values.")
    return Operand("condition", _comparison(sign, operands))


def _operand(part: object) -> Operand:
    if isinstance(part, list):
        return _condition(part)
    if isinstance(part, bool) or not isinstance(part, str | int | float):
        raise _invalid(f"{_shown(part)} is not a text, a number or a condition.")
    if isinstance(part, str) and part.startswith("$"):
        return _of_host(part[1:])
    if isinstance(part, str):
        if len(part) > LONGEST_WORD or not part.isprintable():
            raise _invalid(f"{_shown(part)} is not a text of at most {LONGEST_WORD} printable characters.")
        return Operand("text", lambda _: part)
    if abs(part) >= GREATEST or not math.isfinite(part):
        raise _invalid("one of its numbers is too large.")
    return Operand("number", lambda _: part)


def _of_host(name: str) -> Operand:
    if name in NUMBERS:
        return Operand("number", NUMBERS[name])
    if name in WORDS:
        word = WORDS[name]
        return Operand("text", lambda host: word(host) or None)
    if name in LISTS:
        return Operand("list", LISTS[name])
    known_names = ", ".join(f"${each}" for each in [*NUMBERS, *WORDS, *LISTS])
    raise _invalid(f"{_shown('$' + name)} is not a known attribute of a host; known are {known_names}.")


def _logic(sign: str, operands: Sequence[Operand]) -> Callable[[HostState], bool]:
    if not operands or any(operand.kind != "condition" for operand in operands):
        raise _invalid(f"{sign!r} requires conditions, which are lists.")
    judges = [operand.of for operand in operands]
    if sign == "and":
        return lambda host: all(judge(host) for judge in judges)
    if sign == "or":
        return lambda host: any(judge(host) for judge in judges)
    return lambda host: not all(judge(host) for judge in judges)


def _comparison(sign: str, operands: Sequence[Operand]) -> Callable[[HostState], bool]:
    """Return a function that compares the first operand with all others, as in Nova. With ``in``, the first operand
    must equal one of them.
    """
    first, *others = operands
    kinds = {operand.kind for operand in operands} - ({"list"} if sign == "in" and first.kind == "text" else set())
    if len(kinds) != 1 or kinds <= {"condition", "list"}:
        raise _invalid(f"{sign!r} can only compare numbers with numbers and texts with texts.")
    left, rights = first.of, [other.of for other in others]
    compare = _is_in if sign == "in" else _COMPARISONS[sign]
    enough = any if sign == "in" else all

    def judge(host: HostState) -> bool:
        value = left(host)
        if value is None:
            return False
        return enough([(other := right(host)) is not None and compare(value, other) for right in rights])

    return judge


def _is_in(value: Any, other: Any) -> bool:
    return value in other if isinstance(other, frozenset) else bool(value == other)


def _shown(part: object) -> str:
    return repr(part[:64]) if isinstance(part, str) else f"a value of another type ({type(part).__name__})"


def _invalid(why: str) -> InvalidInputError:
    return InvalidInputError(f"Invalid input for query: {why}", field=FIELD)


class JsonFilter(HostFilter):
    """Hosts that meet the hint ``query``; a malformed query lets no host pass."""

    name = "JsonFilter"
    kept = ("matches the hint query", "match the hint query")
    needs = frozenset({"hardware", "cpu_info", "io_ops"})

    def applies(self, spec: RequestSpec) -> bool:
        return spec.query is not None

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if spec.query is None:
            return list(hosts)
        try:
            judge = compiled(spec.query)
        except InvalidInputError:
            return []
        return [host for host in hosts if judge(host)]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} excluded by the hint query"
