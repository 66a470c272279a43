"""Nova's operators in values of extra specs: ``>= 4``, ``<or> ssd <or> nvme``."""

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,  # as in Nova
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}


@lru_cache(maxsize=4096)
def meets(value: str | frozenset[str], required: str) -> bool:
    """Whether a value matches an extra spec: a text, or an operator with its operands.

    A value may consist of several words (a processor's features), among which ``<in>`` and ``<all-in>`` match whole
    words. Results are cached, because many hosts have the same values.
    """
    sign, *operands = required.split() or [""]
    if sign == "<or>":
        return value in _alternatives(operands)
    if sign == "<all-in>":
        return bool(operands) and all(word in value for word in operands)
    if len(operands) != 1:
        return value == required
    return _compared(sign, value, operands[0]) if sign in _SIGNS else value == required


def _compared(sign: str, value: str | frozenset[str], operand: str) -> bool:
    if sign == "<in>":
        return operand in value
    if not isinstance(value, str):
        return False
    if sign in _TEXTS:
        return _TEXTS[sign](value, operand)
    try:
        return _NUMBERS[sign](float(value), float(operand))
    except ValueError:
        return False


def _alternatives(words: Sequence[str]) -> set[str]:
    """Return the set {a, b} for the words of ``<or> a <or> b``."""
    return {word for word in words if word != "<or>"}


_SIGNS = {"<in>", *_TEXTS, *_NUMBERS}
