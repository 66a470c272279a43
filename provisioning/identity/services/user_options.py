"""Validation of user options."""

from collections.abc import Mapping
from typing import Any

from provisioning.common.errors import InvalidInputError

SWITCHES = (
    "ignore_change_password_upon_first_use",
    "ignore_password_expiry",
    "ignore_lockout_failure_attempts",
    "lock_password",
    "multi_factor_auth_enabled",
)
"""Boolean options."""
FACTORS = "multi_factor_auth_rules"
"""Lists of methods; a user must satisfy all methods of one of the lists."""
MOST_RULES, MOST_METHODS, LONGEST_METHOD = 32, 16, 64


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None.  Raises InvalidInputError for an invalid one."""
    found = {name: value for name, value in options.items() if value is not None}
    for name, value in found.items():
        if name in SWITCHES:
            if not isinstance(value, bool):
                raise InvalidInputError(f"The option {name} must be true or false.", field=name)
        elif name == FACTORS:
            _check_factors(value)
        else:
            raise InvalidInputError(f"There is no option {name[:64]}.", field="options")
    return found


def _check_factors(rules: Any) -> None:
    right = isinstance(rules, list) and len(rules) <= MOST_RULES and all(_is_rule(rule) for rule in rules)
    if not right or len({tuple(rule) for rule in rules}) < len(rules):
        raise InvalidInputError(
            f"The option {FACTORS} must be a list of unique lists of unique method names.", field=FACTORS
        )


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, list)
        and 0 < len(rule) <= MOST_METHODS
        and all(isinstance(name, str) and 0 < len(name) <= LONGEST_METHOD and "\0" not in name for name in rule)
        and len(set(rule)) == len(rule)
    )
