"""Multi-factor rules of users: Keystone's options ``multi_factor_auth_rules`` and ``…_enabled``."""

from collections.abc import Iterable

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import User


def check(user: User, methods: Iterable[str]) -> None:
    """Raise NotAuthenticatedError unless the methods satisfy one of the user's rules, if there are any."""
    if not is_enough(user, methods):
        raise NotAuthenticatedError(REFUSED)


def is_enough(user: User, methods: Iterable[str]) -> bool:
    """Return whether these methods are sufficient.  Rules apply unless ``multi_factor_auth_enabled`` is false, as in
    Keystone.
    """
    if user.options.get("multi_factor_auth_enabled") is False:
        return True
    used, rules = set(methods), _rules(user)
    return not rules or any(used.issuperset(rule) for rule in rules)


def required(user: User, methods: Iterable[str]) -> list[list[str]]:
    """Return the user's rules that these methods partly satisfy."""
    used = set(methods)
    return [list(rule) for rule in _rules(user) if used.intersection(rule)]


def _rules(user: User) -> list[list[str]]:
    rules = user.options.get("multi_factor_auth_rules")
    listed = rules if isinstance(rules, list) else []
    return [list(dict.fromkeys(rule)) for rule in listed if isinstance(rule, list) and rule]
