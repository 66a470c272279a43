"""Actions with their policy rules, arguments and error codes; ``actions.every`` lists them."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.api.ec2.frame import errors
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy

Arguments = Mapping[str, Any]
"""A structure of a request, with boto3's names and types."""
Shape = dict[str, Any]
"""A structure of a response, in boto3's format. Members that begin with an underscore are for filters and not shown."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as passed to an action."""

    context: RequestContext
    arguments: Arguments
    region: str
    """The name of this cloud's region."""
    endpoint: str
    """The address at which clients reach this API."""

    @property
    def project_id(self) -> uuid.UUID:
        return self.context.project_id or NOBODY

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return an argument, or ``otherwise`` if it was not specified."""
        value = self.arguments.get(name)
        return otherwise if value is None else value

    def allow_only(self, name: str, *, value: object, why: str) -> None:
        """Raise Ec2Error if an argument, or the ``Value`` in it, differs from the only supported value."""
        specified = self.get(name)
        requested = specified.get("Value") if isinstance(specified, dict) else specified
        if requested is not None and requested != value:
            raise errors.unsupported(f"{name}: {why}")

    def enforce(self, *rules: str, target: policy.Target | None = None) -> None:
        """Raise ForbiddenError if a policy rule denies the operation; ``target`` is by default the caller's project."""
        for rule in rules:
            policy.enforce(self.context, rule, target)


Handler = Callable[[Call], Shape]


@dataclass(frozen=True, slots=True)
class Action:
    """One action of EC2."""

    name: str
    rules: tuple[str, ...]
    """Policy rules, which are all checked before resources are read."""
    handler: Handler
    takes: frozenset[str]
    """Arguments that have an effect."""
    ignored: frozenset[str]
    """Arguments that are accepted and ignored; all other arguments of the model are rejected."""
    missing: str
    """Error code for a missing resource: ``InvalidVolume.NotFound``."""
    conflict: str
    """Error code for a request that the current state forbids: ``IncorrectState``."""
    whole: bool
    """Whether the action runs in one transaction. Otherwise its services have their own transactions, and
    ``ClientToken`` is not supported.
    """
    over_quota: Mapping[str, str] = field(default_factory=dict)
    """Resource of a quota → code, where it differs from ``faults.OVER_QUOTA``."""

    @property
    def changes(self) -> bool:
        """Whether the action writes, judged by the prefix of its name."""
        return not self.name.startswith(("Describe", "Get"))

    def __call__(self, call: Call) -> Shape:
        return self.handler(call)


ALWAYS_TAKEN = frozenset({"DryRun"})


def action(
    name: str,
    *rules: str,
    takes: str = "",
    ignored: str = "",
    missing: str = "InvalidParameterValue",
    conflict: str = "IncorrectState",
    whole: bool = True,
    over_quota: Mapping[str, str] | None = None,
) -> Callable[[Handler], Action]:
    """Declare a handler. ``takes``: arguments that the handler uses; ``ignored``: arguments that it ignores; both
    are names separated by spaces.

    Raises LookupError for an unknown policy rule, or without any rule.
    """
    unknown = set(rules) - policy.RULES.keys()
    if unknown or not rules:
        raise LookupError(f"{name}: no such rule: {', '.join(sorted(unknown))}.")

    return lambda handler: Action(
        name, rules, handler, frozenset(takes.split()), frozenset(ignored.split()), missing, conflict, whole,
        over_quota or {},
    )  # fmt: skip
