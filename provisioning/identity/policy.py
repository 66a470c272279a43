"""Who may do what: every operation of every face has one rule in ``policies``, and every face asks here.

Rules are written in oslo.policy's language and checked by oslo.policy; the file ``POLICY_FILE`` (YAML, name → check)
changes them while the cloud runs.  A check may name of the caller: ``role``, ``user_id``, ``user_domain_id``,
``project_id``, ``project_domain_id``, ``domain_id``, ``system_scope`` (``all``), ``token_scope`` (``project``,
``domain``, ``system``, ``unscoped``), and of the object whatever the face gives: ``user_id``, ``project_id``,
``domain_id``.  Which objects exist for a caller is not decided here: selectors show a project its own.
"""

import importlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.identity import policy_file
from provisioning.identity.policies import RULES
from provisioning.identity.policies.base import PROJECT, Rule
from provisioning.identity.policy_file import PolicyFileError

__all__ = ["RULES", "PersonalRuleError", "Rule", "allows", "enforce", "load", "version"]

Target = Mapping[str, object]
LOOK_EVERY = 0.5
"""Seconds between two looks at the file."""
AT_REST = 0.2
"""Seconds since the file was written, from which on it counts as written to its end."""
MOST_ANSWERS = 4096
"""Answers that are remembered for one set of rules: the same question has the same answer."""
_Mark = tuple[int, int, int] | None
_turn = threading.Lock()
logger = logging.getLogger(__name__)


class PersonalRuleError(Exception):
    """The rule asks who the caller is, and the context says only what the caller may (``without_person``)."""


def allows(context: RequestContext, rule: str, target: Target | None = None) -> bool:
    """Whether the caller may; ``target`` has the object's ids that the check names.  KeyError: no such rule.

    A rule about what a project owns is asked about the caller's own project unless ``target`` names another, and a rule
    about what a user owns (key pairs) about the caller.
    The cloud itself, which is no user, may do what it does as an administrator.  Raises PersonalRuleError.
    """
    scopes, scope = RULES[rule].scopes, _scope_of(context)
    if context.user_id is None:
        return context.is_admin
    if scope not in scopes:
        return False
    target = target or {}
    if scopes == PROJECT:
        own = {"user_id": context.user_id} if "user_id" in policy_file.targets_of(rule) else {}
        target = {"project_id": context.project_id, **own, **target}
    rules = _current()
    question: tuple[object, ...] = (rule, context.roles, scope)
    if rule not in rules.by_role:
        if context.impersonal:
            raise PersonalRuleError(rule)
        question += (
            context.user_id, context.user_domain_id, context.project_id, context.project_domain_id, context.domain_id,
            *target.items(),
        )  # fmt: skip
    try:
        answer = rules.answers.get(question)
    except TypeError:  # the target came from outside, and is no id at all
        return rules.ask(rule, _plain(target), _credentials(context))
    if answer is None:
        answer = rules.ask(rule, _plain(target), _credentials(context))
        if len(rules.answers) >= MOST_ANSWERS:
            rules.answers.clear()
        rules.answers[question] = answer
    return answer


def enforce(context: RequestContext, rule: str, target: Target | None = None) -> None:
    """Raise ForbiddenError, in Nova's words, unless ``allows``."""
    if not allows(context, rule, target):
        wanted = "" if _scope_of(context) in RULES[rule].scopes else " It needs a token for a project."
        raise ForbiddenError(f"Policy doesn't allow {rule} to be performed.{wanted}")


def load() -> None:
    """Read the rules now, as a process that asks them does at its start.  Raises PolicyFileError for a broken file."""
    with _turn:
        rules = _follow(None)
    if rules.broken is not None:
        raise rules.broken


def version() -> int:
    """Return a number that changes when the rules do; what was allowed before has to be asked again then."""
    return _current().version


@dataclass(slots=True)
class _InForce:
    """The rules in force, and what the file looked like; without an ``enforcer`` everything is refused."""

    path: Path
    mark: _Mark
    enforcer: Any
    by_role: frozenset[str] = frozenset()
    """Rules that ask for nothing but roles and the kind of token."""
    version: int = 0
    broken: PolicyFileError | None = None
    look_at: float = 0.0
    answers: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def ask(self, rule: str, target: dict[str, object], credentials: dict[str, Any]) -> bool:
        """Ask oslo.policy; a check that fails, such as one that is nested beyond all measure, lets nobody in."""
        try:
            return self.enforcer is not None and bool(self.enforcer.enforce(rule, target, credentials))
        except Exception:
            logger.exception("The rule %s cannot be checked; it refuses.", rule)
            return False


_in_force: _InForce | None = None


def _current() -> _InForce:
    """Return the rules in force, after a look at the file when it is time for one."""
    rules = _in_force
    if rules is not None and time.monotonic() < rules.look_at:
        return rules
    with _turn:
        return _follow(_in_force)


def _follow(before: _InForce | None) -> _InForce:
    """Take the file's rules if it has changed.  What cannot be used changes nothing, and is logged once."""
    global _in_force
    path = Path(settings.POLICY_FILE)
    if before is None or before.path != path:
        before = _InForce(path, None, None, version=_in_force.version if _in_force else 0)
        mark = _mark(path)
    else:
        mark = _mark(path)
        if mark == before.mark or _is_being_written(mark):
            before.look_at = time.monotonic() + LOOK_EVERY
            return before
    made = replace(before, mark=mark, answers={})
    try:
        checks, unused = _checks(path, gone=mark is None and before.mark is not None)
        made.enforcer, made.by_role = _enforcer(checks), policy_file.by_role(checks)
        made.version, made.broken = before.version + 1, None
        if before.mark is not None:
            logger.info("The rules of %s are in force.", path)
        if unused:
            logger.warning("%s has rules for what this cloud does not do: %s.", path, ", ".join(sorted(unused)))
    except PolicyFileError as error:
        made.broken = error
        kept = "The rules before stay in force." if made.enforcer else "Everything is refused until it is repaired."
        logger.error("%s %s", error, kept)  # noqa: TRY400 - the sentence says all
    made.look_at = time.monotonic() + LOOK_EVERY
    _in_force = made
    return made


def _checks(path: Path, *, gone: bool) -> tuple[policy_file.Checks, set[str]]:
    """Return the check of every rule, and the rules of the file that nothing asks.  A file that is gone may be a
    mistake, which must not bring the defaults back.
    """
    if gone:
        raise PolicyFileError(path, ["It is gone; an empty file brings the defaults back."])
    given = policy_file.read(path)
    return policy_file.effective(given), policy_file.unused(given)


def _mark(path: Path) -> _Mark:
    """Return what changes whenever the file does; None: there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the price of Path's
    except FileNotFoundError:
        return None
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _is_being_written(mark: _Mark) -> bool:
    """Whether the file may not be there to its end: half of a file would be half of the rules."""
    return mark is not None and abs(time.time() - mark[0] / 1e9) < AT_REST


@cache
def _library() -> tuple[Any, Any]:
    """Return oslo.policy and its options; loaded at the first question: workers ask none, and it takes 24 MiB."""
    cfg, library = importlib.import_module("oslo_config.cfg"), importlib.import_module("oslo_policy.policy")
    options = cfg.ConfigOpts()
    options([], project="novella", default_config_files=[], default_config_dirs=[])
    return library, options


def _enforcer(checks: Mapping[str, str]) -> Any:
    """Return oslo.policy's enforcer of these checks; it looks at no file itself."""
    library, options = _library()
    enforcer = library.Enforcer(options, use_conf=False)
    enforcer.set_rules(library.Rules.from_dict(dict(checks)), use_conf=False)
    return enforcer


def _scope_of(context: RequestContext) -> str:
    """Return what the caller's token is for."""
    if context.system:
        return "system"
    if context.domain_id:
        return "domain"
    return "project" if context.project_id else "unscoped"


def _credentials(context: RequestContext) -> dict[str, Any]:
    """Return what a check may name of the caller; what the caller has not is left out, or it would equal what an
    object has not.
    """
    found = {
        "roles": sorted(context.roles),
        "user_id": context.user_id.hex if context.user_id else None,
        "user_domain_id": context.user_domain_id,
        "project_id": context.project_id.hex if context.project_id else None,
        "project_domain_id": context.project_domain_id if context.project_id else None,
        "domain_id": context.domain_id,
        "system_scope": "all" if context.system else None,
        "token_scope": _scope_of(context),
    }
    return {name: value for name, value in found.items() if value is not None}


def _plain(target: Target) -> dict[str, object]:
    """Return the target with its ids spelled in one way."""
    found = {name: read_id(value) for name, value in target.items()}
    return {name: found[name].hex if found[name] else value for name, value in target.items()}  # type: ignore[union-attr]
