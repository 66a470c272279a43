"""Who may do what: every operation of every face has one rule in ``policies``, and every face asks here.

Rules are written in oslo.policy's language and checked by oslo.policy; the file ``POLICY_FILE`` (YAML, name → check)
changes them.  A check may name of the caller: ``role``, ``user_id``, ``user_domain_id``, ``project_id``,
``project_domain_id``, ``domain_id``, ``system_scope`` (``all``), ``token_scope`` (``project``, ``domain``, ``system``,
``unscoped``), and of the object whatever the face gives: ``user_id``, ``project_id``, ``domain_id``.  Which objects exist
for a caller is not decided here: selectors show a project its own.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.identity.policies import RULES
from provisioning.identity.policies.base import Rule

__all__ = ["RULES", "Rule", "allows", "enforce"]

Target = Mapping[str, object]
_making = threading.Lock()


def allows(context: RequestContext, rule: str, target: Target | None = None) -> bool:
    """Whether the caller may; ``target`` has the object's ids that the check names.  KeyError: no such rule."""
    RULES[rule]
    with _making:
        enforcer = _enforcer(str(settings.POLICY_FILE))
    return bool(enforcer.enforce(rule, _plain(target or {}), _credentials(context)))


def enforce(context: RequestContext, rule: str, target: Target | None = None) -> None:
    """Raise ForbiddenError, in Nova's words, unless ``allows``."""
    if not allows(context, rule, target):
        raise ForbiddenError(f"Policy doesn't allow {rule} to be performed.")


@cache
def _enforcer(path: str) -> Any:
    """Return oslo.policy's enforcer; loaded at the first question: workers ask none, and it takes 24 MiB."""
    cfg, library = importlib.import_module("oslo_config.cfg"), importlib.import_module("oslo_policy.policy")
    options = cfg.ConfigOpts()
    options([], project="novella", default_config_files=[], default_config_dirs=[])
    enforcer = library.Enforcer(options)
    options.set_override("policy_file", path, group="oslo_policy")
    options.set_override("policy_dirs", [], group="oslo_policy")
    enforcer.policy_file = path
    for rule in RULES.values():
        operations = [{"method": method, "path": where} for method, where in rule.operations]
        default = (
            library.DocumentedRuleDefault(rule.name, rule.check, rule.description, operations, scope_types=list(rule.scopes))
            if operations
            else library.RuleDefault(rule.name, rule.check, rule.description, scope_types=list(rule.scopes))
        )
        enforcer.register_default(default)
    return enforcer


def _credentials(context: RequestContext) -> dict[str, Any]:
    scope = "system" if context.system else "domain" if context.domain_id else "project"
    return {
        "roles": sorted(context.roles),
        "user_id": context.user_id.hex if context.user_id else None,
        "user_domain_id": context.user_domain_id,
        "project_id": context.project_id.hex if context.project_id else None,
        "project_domain_id": context.project_domain_id if context.project_id else None,
        "domain_id": context.domain_id,
        "system_scope": "all" if context.system else None,
        "token_scope": scope if scope != "project" or context.project_id else "unscoped",
    }


def _plain(target: Target) -> dict[str, object]:
    """Return the target with its ids spelled in one way."""
    found = {name: read_id(value) for name, value in target.items()}
    return {name: found[name].hex if found[name] else value for name, value in target.items()}  # type: ignore[union-attr]
