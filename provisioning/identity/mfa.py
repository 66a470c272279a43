"""Which methods are enough to sign in as a user: Keystone's options ``multi_factor_auth_rules`` and ``…_enabled``."""

from collections.abc import Iterable

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import User


def check(user: User, methods: Iterable[str]) -> None:
    """Raise NotAuthenticatedError unless the methods contain all of one of the user's rules, if there are any."""
    if not is_enough(user, methods):
        raise NotAuthenticatedError(REFUSED)


def is_enough(user: User, methods: Iterable[str]) -> bool:
    """Whether these methods are enough.  Rules without ``multi_factor_auth_enabled`` are in force, as in Keystone."""
    if user.options.get("multi_factor_auth_enabled") is False:
        return True
    rules = user.options.get("multi_factor_auth_rules")
    wanted = [set(rule) for rule in rules if isinstance(rule, list) and rule] if isinstance(rules, list) else []
    used = set(methods)
    return not wanted or any(rule <= used for rule in wanted)
