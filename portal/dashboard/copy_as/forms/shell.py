"""Quoting for bash, and the variables that pass results from one command to the next."""

import shlex
from collections.abc import Iterable, Sequence

from portal.dashboard.copy_as.calls import Call, Result, Secret, results_in, secrets_in

WIDEST = 100
"""Characters of a command that stays on one line."""


def quote(text: str) -> str:
    """Return a text as one word of bash; characters that a reader cannot see are escaped."""
    if all(each.isprintable() or each == "\n" for each in text):
        return shlex.quote(text)
    quoted = ""
    for each in text:
        if each in "\\'":
            quoted += f"\\{each}"
        elif each.isprintable():
            quoted += each
        else:
            quoted += "".join(f"\\x{byte:02x}" for byte in each.encode())
    return f"$'{quoted}'"


class Variables:
    """Shell variables for the results of calls that later calls refer to."""

    def __init__(self, calls: Sequence[Call]) -> None:
        used = {result.of for call in calls for result in results_in(list(call.values.values()))}
        self.names: dict[Call, str] = {}
        for call in calls:
            if call in used:
                self.names[call] = numbered(call.kind.key, self.names.values())

    def shell(self, call: Call) -> str:
        """Return the name of the variable of bash for the id that a call returns."""
        return f"{self.names[call].upper()}_ID"

    def word(self, value: object) -> str:
        """Return a value as a word of bash."""
        if isinstance(value, Result):
            return f'"${self.shell(value.of)}"'
        if isinstance(value, Secret):
            return f'"${value.name.upper()}"'
        if isinstance(value, bool):
            return "true" if value else "false"
        return quote(str(value))


def numbered(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not ``taken`` yet: with a number if necessary."""
    known = set(taken)
    result, number = name, 1
    while result in known:
        number += 1
        result = f"{name}_{number}"
    return result


def secrets_of(calls: Sequence[Call]) -> list[str]:
    """Return the names of the secrets that the calls contain."""
    return list(dict.fromkeys(each.name for call in calls for each in secrets_in(list(call.values.values()))))


def secret_checks(calls: Sequence[Call]) -> list[str]:
    """Return lines that end the program if a secret is not set."""
    return [f': "${{{name.upper()}:?Set this variable first: it is not copied}}"' for name in secrets_of(calls)]


def folded(words: Sequence[str]) -> str:
    """Return a command, with a line for each option if it is long. A word may be an option with its value."""
    line = " ".join(words)
    return line if len(line) <= WIDEST or len(words) < 3 else " \\\n    ".join(words)
