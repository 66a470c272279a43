"""Reads the operator's policy file, and finds all its problems before it is used.

The file is YAML, rule name → check in the language of oslo.policy. A name without a colon that is not a rule of
``policies`` is the operator's own rule, which other rules can use with ``rule:``. Rules of OpenStack for operations
that this cloud does not have are ignored and reported. Everything that could deny or allow access by mistake is a
problem, such as a misspelt attribute or a cycle. oslo.policy's own reader is not sufficient: it accepts half-written
files, restores the defaults when the file is deleted or invalid, and does not detect misspelt attributes or cycles
through ``not``.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.checks import CheckMessage, Error

from provisioning.identity.policies import GUARDING, RULES
from provisioning.identity.policies.base import PROJECT

CALLER = frozenset(
    {
        "user_id", "user_domain_id", "project_id", "project_domain_id", "domain_id", "system_scope", "token_scope",
        "roles",
    }
)  # fmt: skip
"""Attributes of the caller that a check may use, besides ``role`` and ``rule``."""
SHARED = frozenset({"role", "roles", "rule", "system_scope", "token_scope"})
"""Attributes that callers share if they have the same roles and scope."""
LARGEST = 256 << 10
"""Maximum size of the file in bytes."""
Checks = dict[str, str]
_NAMED = re.compile(r"%\((\w+(?:[.:]\w+)*)\)s")
_ELSEWHERE = Path(__file__).parent / "policies" / "elsewhere.txt"
_OWN_NAME = re.compile(r"[\w.-]+")


class PolicyFileError(Exception):
    """The file cannot be used; ``problems`` are messages for the operator."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        super().__init__(f"The policy file {path} cannot be used: {' '.join(problems)}")
        self.problems = problems


def read(path: Path) -> Checks:
    """Return the file's checks by rule; empty without a file.  Raises PolicyFileError with all problems."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PolicyFileError(path, [f"It cannot be read ({error.strerror})."]) from error
    if len(text) > LARGEST:
        raise PolicyFileError(path, ["It is larger than 256 KiB."])
    try:
        problems, checks = _entries(text.decode())
        problems += _problems_of(checks)
    except UnicodeDecodeError as error:
        raise PolicyFileError(path, ["It is not UTF-8 text."]) from error
    except RecursionError as error:
        raise PolicyFileError(path, ["It is nested too deeply."]) from error
    if problems:
        raise PolicyFileError(path, problems)
    return checks


def effective(overrides: Mapping[str, str]) -> Checks:
    """Return the check of every rule: the defaults, overridden by the file."""
    without = unused(overrides)
    chosen = {name: check for name, check in overrides.items() if name not in without}
    return {rule.name: rule.check for rule in RULES.values()} | chosen


@cache
def _elsewhere() -> frozenset[str]:
    """Return the names of OpenStack's rules for operations that this cloud does not have."""
    return frozenset(line for line in _ELSEWHERE.read_text().splitlines() if line and not line.startswith("#"))


def unused(overrides: Mapping[str, str]) -> set[str]:
    """Return the file's rules that exist in OpenStack but are not used here."""
    names = overrides.keys() - RULES.keys()
    names = names & _elsewhere() if names else names
    while named := {each for name in overrides.keys() - names for each in _references(overrides[name])} & names:
        names -= named
    return set(names)


def differing(overrides: Mapping[str, str]) -> Checks:
    """Return the file's checks that differ from the defaults."""
    without = unused(overrides)
    return {
        name: check
        for name, check in overrides.items()
        if name not in without and (name not in RULES or check.split() != RULES[name].check.split())
    }


def by_role(everything: Mapping[str, str]) -> frozenset[str]:
    """Return the rules that have the same result for all callers with the same roles and token scope."""
    names = {name for name, check in everything.items() if _kinds(check) <= SHARED and not _NAMED.search(check)}
    while others := {name for name in names if not names.issuperset(_references(everything[name]))}:
        names -= others
    return frozenset(names)


@cache
def targets_of(name: str) -> frozenset[str]:
    """Return the target attributes that a rule's check may use.

    A rule that only other rules use may use the attributes of all rules that operations check.
    """
    if name not in GUARDING:
        return frozenset().union(*map(targets_of, GUARDING))
    if RULES[name].scopes == PROJECT:
        return frozenset({"project_id", *_NAMED.findall(RULES[name].check)})
    identity = (rule for rule in RULES.values() if rule.scopes != PROJECT)
    named = {attribute for rule in identity for attribute in _NAMED.findall(rule.check)}
    return frozenset(named | {"user_id", "project_id", "domain_id"})


def _entries(text: str) -> tuple[list[str], Checks]:
    """Return the problems of the YAML, and the entries that can be read."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "a character that is not allowed"
        return [f"It is not valid YAML{where}: {problem}. Names and checks must be quoted."], {}
    if root is None:
        return [], {}
    if not isinstance(root, yaml.MappingNode):
        return ["It must have one line for each rule: its name, a colon, its check."], {}
    problems: list[str] = []
    checks: Checks = {}
    for key, value in root.value:
        where = f"Line {key.start_mark.line + 1}:"
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if not isinstance(value, yaml.ScalarNode) or value.tag != "tag:yaml.org,2002:str" or not name:
            problems.append(f"{where} the check of {name or 'a rule'} must be text in quotes.")
        elif name in checks:
            problems.append(f"{where} {name} occurs twice.")
        else:
            checks[name] = value.value
    return problems, checks


def _problems_of(checks: Checks) -> list[str]:
    """Return the problems of the entries as rules."""
    everything, without = effective(checks), unused(checks)
    checks = {name: check for name, check in checks.items() if name not in without}
    named = {each for name, check in everything.items() for each in _references(check) if each != name}
    problems = [problem for name in checks for problem in _problems_of_name(name, named)]
    problems += [
        f"{name}: {problem}" for name, check in checks.items() for problem in problems_of_check(name, check, everything)
    ]
    cycle = _cycle(everything)
    return [*problems, f"These rules refer to each other in a cycle: {' → '.join(cycle)}."] if cycle else problems


def _problems_of_name(name: str, named: set[str]) -> Iterator[str]:
    if name in RULES or (name in named and _OWN_NAME.fullmatch(name)):
        return
    near = difflib.get_close_matches(name, RULES, 1, 0.8)
    yield f"There is no rule {name}, and no rule refers to it{f'; did you mean {near[0]}?' if near else '.'}"


def problems_of_check(name: str, check: str, everything: Mapping[str, str]) -> list[str]:
    """Return the problems of one rule's check as messages; ``everything``: all rules that it may refer to."""
    if not check.strip():
        return ['It is empty. "@" allows all users, "!" none.']
    leaves = [word for word in _words(check) if word.lower() not in {"and", "or", "not"}]
    problems = [problem for leaf in leaves for problem in _problems_of_leaf(name, leaf, everything)]
    if not problems and sorted(leaves) != sorted(_understood(check)):
        problems.append(f"{check!r} cannot be understood: checks are joined by and, or, not and parentheses.")
    return problems


def _problems_of_leaf(name: str, leaf: str, everything: Mapping[str, str]) -> Iterator[str]:
    if leaf in {"@", "!"}:
        return
    kind, _, value = leaf.partition(":")
    if not kind or not value:
        yield f"{leaf!r} is not a check: write role:name, rule:name, attribute:value, @ or !."
        return
    if kind in {"http", "https"}:
        yield f"{leaf!r} would query another server at every request, which is not supported."
    elif kind == "rule" and value not in everything:
        yield f"It refers to the rule {value}, which does not exist."
    elif kind not in CALLER | {"rule", "role"} and not _is_constant(kind):
        yield f"{kind!r} is not an attribute of the caller; these are role, rule, {', '.join(sorted(CALLER))}."
    for each in dict.fromkeys(_NAMED.findall(value)):
        if each not in targets_of(name):
            yield f"%({each})s is not available for this rule; available: {', '.join(sorted(targets_of(name)))}."
    if "%" in _NAMED.sub("", value):
        yield f"{leaf!r} has a % outside of %(name)s."


def _is_constant(kind: str) -> bool:
    return (
        kind in {"True", "False", "None"} or re.fullmatch(r"'[^'\\]*'|\"[^\"\\]*\"|0|[1-9]\d{0,17}", kind) is not None
    )


def _words(check: str) -> list[str]:
    """Return the words of a check without parentheses. Like oslo.policy, recognize parentheses only at either end of a
    word.
    """
    return [word for word in (part.lstrip("(").rstrip(")") for part in check.split()) if word]


def _understood(check: str) -> list[str]:
    """Return the checks that oslo.policy recognizes in a text; oslo.policy replaces checks that it cannot parse by
    ``!``.
    """
    from oslo_policy import policy as library  # noqa: PLC0415 - it takes much memory, and workers do not need it

    tree = library.Rules.from_dict({"rule": check})["rule"]
    return [word for word in _words(str(tree)) if word.lower() not in {"and", "or", "not"}]


def _kinds(check: str) -> set[str]:
    return {word.partition(":")[0] for word in _words(check) if ":" in word}


def _references(check: str) -> list[str]:
    return [word.removeprefix("rule:") for word in _words(check) if word.startswith("rule:")]


def _cycle(everything: Mapping[str, str]) -> list[str]:
    """Return the names along a cycle of rules, or an empty list."""
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> list[str]:
        if name in above:
            return [*above[above.index(name) :], name]
        if name in done or name not in everything:
            return []
        result = next(filter(None, (walk(each, (*above, name)) for each in _references(everything[name]))), [])
        done.add(name)
        return result

    return next(filter(None, (walk(name, ()) for name in everything)), [])


def check_policy_file(**_: Any) -> list[CheckMessage]:
    """Report all problems of the operator's policy file, as a system check of Django."""
    path = Path(settings.POLICY_FILE)
    try:
        read(path)
    except PolicyFileError as error:
        return [Error(problem, obj=str(path), id="novella.policy") for problem in error.problems]
    return []
