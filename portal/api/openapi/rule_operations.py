"""The operations that check each policy rule, from the views and their routes."""

import re
from collections.abc import Iterator, Mapping

from portal.api.openapi.document import Endpoints, named
from provisioning.identity.policies import RULES
from provisioning.identity.policies.base import Operation

Operations = Mapping[str, tuple[Operation, ...]]
_SERVICE = re.compile(r"^/(compute/v2\.1|identity|image|network|volume/v3)(?=/)")


def operations_of_rules() -> Operations:
    """Return the operations of every rule: the operations of the views that check it, and the operations that the rule
    itself lists.

    If a rule lists an operation in more detail (``GET /v3/users?name={name}``), only that entry is returned.
    """
    found: dict[str, list[Operation]] = {name: [] for name in RULES}
    for rule, operation in _asked_by_views():
        listed = {(method, path.partition("?")[0]) for method, path in RULES[rule].operations}
        if operation not in found[rule] and operation not in listed:
            found[rule].append(operation)
    return {name: (*asked, *RULES[name].operations) for name, asked in found.items()}


def _asked_by_views() -> Iterator[tuple[str, Operation]]:
    """Yield the rule of each method of each view, with the method and the path below the service's address."""
    for path, view in dict.fromkeys((path, callback.cls) for path, _, _, callback in Endpoints().get_api_endpoints()):
        where = _SERVICE.sub("", named(view, path))
        offered = {name.upper() for name in view.http_method_names}
        yield from ((rule, (method, where)) for method, rule in view.rules.items() if method in offered)
        yield from ((rule, ("POST", f"{where} ({action})")) for action, rule in view.action_rules.items())
