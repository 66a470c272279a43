"""Policy: every operation of every API and page has one rule in ``policies``, which is checked here.

Rules are written in the language of oslo.policy and checked by it. The file ``POLICY_FILE`` (YAML, name → check)
overrides them while the cloud runs. A check may refer to these attributes of the caller: ``role``, ``user_id``,
``user_domain_id``, ``project_id``, ``project_domain_id``, ``domain_id``, ``system_scope`` (``all``), ``token_scope``
(``project``, ``domain``, ``system``, ``unscoped``), and to the attributes of the target that the operation provides:
``user_id``, ``project_id``, ``domain_id``. Visibility is not decided here: selectors restrict callers to their
project's objects.
"""

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
from provisioning.common.values.ids import read_id
from provisioning.identity import policy_file
from provisioning.identity.policies import RULES
from provisioning.identity.policies.base import PROJECT, Rule
from provisioning.identity.policy_file import PolicyFileError

__all__ = ["RULES", "PersonalRuleError", "Rule", "allows", "enforce", "load", "version"]

Target = Mapping[str, object]
LOOK_EVERY = 0.5
"""Seconds between two checks of the file."""
AT_REST = 0.2
"""Age in seconds from which the file is considered completely written."""
MOST_ANSWERS = 4096
"""Maximum number of cached results for one set of rules."""
_Mark = tuple[int, int, int] | None
_turn = threading.Lock()
logger = logging.getLogger(__name__)


class PersonalRuleError(Exception):
    """The rule depends on the caller's identity, but the context only has roles (``without_person``)."""


def allows(context: RequestContext, rule: str, target: Target | None = None) -> bool:
    """Return whether the caller may carry out the operation. ``target`` has the ids of the object.

    For rules about resources of projects, the target's project is the caller's unless ``target`` specifies another one;
    for resources of users (key pairs), the same applies to the user. The control plane itself, without a user, has the
    rights of an administrator. Raises PersonalRuleError, and KeyError for an unknown rule.
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
    except TypeError:  # the target came from a request and is not a valid id
        return rules.ask(rule, _plain(target), _credentials(context))
    if answer is None:
        answer = rules.ask(rule, _plain(target), _credentials(context))
        if len(rules.answers) >= MOST_ANSWERS:
            rules.answers.clear()
        rules.answers[question] = answer
    return answer


def enforce(context: RequestContext, rule: str, target: Target | None = None) -> None:
    """Raise ForbiddenError, with Nova's message, if the caller may not carry out the operation (``allows``)."""
    if not allows(context, rule, target):
        hint = "" if _scope_of(context) in RULES[rule].scopes else " The operation requires a token for a project."
        raise ForbiddenError(f"Policy doesn't allow {rule} to be performed.{hint}")


def load() -> None:
    """Read the rules at the start of a process that uses them.  Raises PolicyFileError for an invalid file."""
    with _turn:
        rules = _follow(None)
    if rules.broken is not None:
        raise rules.broken


def version() -> int:
    """Return a number that changes with the rules. A decision under another number must be repeated."""
    return _current().version


@dataclass(slots=True)
class _InForce:
    """The active rules, and the state of their file. Without an ``enforcer`` everything is denied."""

    path: Path
    mark: _Mark
    enforcer: Any
    by_role: frozenset[str] = frozenset()
    """Rules that depend only on roles and the scope of the token."""
    version: int = 0
    broken: PolicyFileError | None = None
    look_at: float = 0.0
    answers: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def ask(self, rule: str, target: dict[str, object], credentials: dict[str, Any]) -> bool:
        """Check a rule with oslo.policy. A check that raises an error, for example because it is nested too deeply,
        denies access.
        """
        try:
            return self.enforcer is not None and bool(self.enforcer.enforce(rule, target, credentials))
        except Exception:
            logger.exception("The rule %s cannot be checked; access is denied.", rule)
            return False


_in_force: _InForce | None = None


def _current() -> _InForce:
    """Return the active rules, after checking the file for changes if it is due."""
    rules = _in_force
    if rules is not None and time.monotonic() < rules.look_at:
        return rules
    with _turn:
        return _follow(_in_force)


def _follow(before: _InForce | None) -> _InForce:
    """Load the rules if the file has changed. An invalid file changes nothing, and is logged once."""
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
            logger.info("The rules of %s are active.", path)
        if unused:
            logger.warning("%s has rules of operations that do not exist here: %s.", path, ", ".join(sorted(unused)))
    except PolicyFileError as error:
        made.broken = error
        kept = "The previous rules stay active." if made.enforcer else "Everything is denied until it is corrected."
        logger.error("%s %s", error, kept)  # noqa: TRY400 - the message is complete
    made.look_at = time.monotonic() + LOOK_EVERY
    _in_force = made
    return made


def _checks(path: Path, *, gone: bool) -> tuple[policy_file.Checks, set[str]]:
    """Return the check of every rule, and the unused rules of the file. A deleted file may be a mistake, so it does not
    restore the defaults.
    """
    if gone:
        raise PolicyFileError(path, ["It was deleted; an empty file restores the defaults."])
    overrides = policy_file.read(path)
    return policy_file.effective(overrides), policy_file.unused(overrides)


def _mark(path: Path) -> _Mark:
    """Return values that differ after each change of the file; None: there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat
    except FileNotFoundError:
        return None
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _is_being_written(mark: _Mark) -> bool:
    """Return whether the file may be incompletely written."""
    return mark is not None and abs(time.time() - mark[0] / 1e9) < AT_REST


@cache
def _library() -> tuple[Any, Any]:
    """Return oslo.policy and its options. Loaded at the first use, because it takes 24 MiB and workers
    do not need it.
    """
    from oslo_config import cfg  # noqa: PLC0415 - see above
    from oslo_policy import policy as library  # noqa: PLC0415

    options = cfg.ConfigOpts()
    options([], project="novella", default_config_files=[], default_config_dirs=[])
    return library, options


def _enforcer(checks: Mapping[str, str]) -> Any:
    """Return an enforcer of oslo.policy with these checks; it reads no files itself."""
    library, options = _library()
    enforcer = library.Enforcer(options, use_conf=False)
    enforcer.set_rules(library.Rules.from_dict(dict(checks)), use_conf=False)
    return enforcer


def _scope_of(context: RequestContext) -> str:
    """Return the scope of the caller's token."""
    if context.system:
        return "system"
    if context.domain_id:
        return "domain"
    return "project" if context.project_id else "unscoped"


def _credentials(context: RequestContext) -> dict[str, Any]:
    """Return the attributes of the caller for checks. Missing attributes are omitted, because a check would consider
    them equal to missing attributes of the target.
    """
    result = {
        "roles": sorted(context.roles),
        "user_id": context.user_id.hex if context.user_id else None,
        "user_domain_id": context.user_domain_id,
        "project_id": context.project_id.hex if context.project_id else None,
        "project_domain_id": context.project_domain_id if context.project_id else None,
        "domain_id": context.domain_id,
        "system_scope": "all" if context.system else None,
        "token_scope": _scope_of(context),
    }
    return {name: value for name, value in result.items() if value is not None}


def _plain(target: Target) -> dict[str, object]:
    """Return the target with its ids in a uniform format."""
    ids = {name: read_id(value) for name, value in target.items()}
    return {name: ids[name].hex if ids[name] else value for name, value in target.items()}  # type: ignore[union-attr]
