"""The actions that are there: what each may be asked by whom, and how its errors are called in EC2."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from portal.api.ec2.protocol import model
from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.identity import policy


@dataclass(frozen=True, slots=True)
class Call:
    """One request as an action gets it."""

    context: RequestContext
    arguments: Mapping[str, Any]
    """By boto3's names and in its types."""
    region: str
    """The name of this cloud's region."""
    endpoint: str
    """The address of this API, as clients use it."""

    @property
    def project_id(self) -> uuid.UUID:
        return self.context.project_id or NOBODY

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return an argument; ``otherwise`` when it was not given."""
        found = self.arguments.get(name)
        return otherwise if found is None else found


Handler = Callable[[Call], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Action:
    """One action of EC2."""

    name: str
    rules: tuple[str, ...]
    """Policy rules, all of which are asked before anything is looked up."""
    handler: Handler
    takes: frozenset[str]
    """Arguments that it heeds."""
    passes_over: frozenset[str]
    """Arguments that it takes and need not heed; every other one that the model knows is refused."""
    missing: str
    """Code for what is not there: ``InvalidVolume.NotFound``."""
    conflict: str
    """Code for what cannot be done in the present state: ``IncorrectState``."""
    whole: bool
    """Whether it is one transaction; else its services have their own, and it takes no ``ClientToken``."""
    over_quota: Mapping[str, str] = field(default_factory=dict)
    """Resource of a quota → code, where it is another than ``faults.OVER_QUOTA`` says."""

    @property
    def changes(self) -> bool:
        """Whether it writes: the words with which the names of the others begin are EC2's own."""
        return not self.name.startswith(("Describe", "Get"))


actions: dict[str, Action] = {}
"""By name."""
ALWAYS_TAKEN = frozenset({"DryRun"})
MODULES = (
    "addresses",
    "empty_lists",
    "images",
    "instances",
    "interfaces",
    "key_pairs",
    "places",
    "prefix_lists",
    "security_groups",
    "tags",
    "volumes",
    "vpcs",
)
"""Modules and packages of ``portal.api.ec2.actions``."""


def action(
    name: str,
    *rules: str,
    takes: str = "",
    passes_over: str = "",
    missing: str = "InvalidParameterValue",
    conflict: str = "IncorrectState",
    whole: bool = True,
    over_quota: Mapping[str, str] | None = None,
) -> Callable[[Handler], Handler]:
    """Register a handler.  ``takes`` and ``passes_over`` are names of arguments with spaces between them.

    Raises LookupError for an argument that the model does not have, or a rule that does not exist.
    """
    unknown = set(rules) - policy.RULES.keys()
    if unknown or not rules:
        raise LookupError(f"{name}: no such rule: {', '.join(sorted(unknown))}.")

    def register(handler: Handler) -> Handler:
        actions[name] = Action(
            name, rules, handler, frozenset(takes.split()), frozenset(passes_over.split()), missing, conflict,
            whole, over_quota or {},
        )  # fmt: skip
        return handler

    return register


def check() -> None:
    """Raise LookupError when an action or an argument is not in the model, or a token needs a transaction."""
    for each in actions.values():
        if not each.whole and "ClientToken" in each.takes:
            raise LookupError(f"{each.name} heeds a ClientToken, and is not one transaction.")
        shape = model.operation(each.name).input_shape
        known = set(model.members_of(shape)) if shape is not None else set()
        strange = (each.takes | each.passes_over) - known
        if strange:
            raise LookupError(f"{each.name} has no {', '.join(sorted(strange))}.")


def load() -> None:
    """Import every module of actions, which register themselves."""
    for name in MODULES:
        import_module(f"portal.api.ec2.actions.{name}")
