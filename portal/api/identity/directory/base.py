"""Views of resources in a domain. Domain administrators get 404 for resources of other domains."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rest_framework.request import Request

from portal.api.frame import Checked, Json, Schema
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Domain
from provisioning.identity.roles import safeguards
from provisioning.identity.selectors.lookups import existing


@dataclass(frozen=True, kw_only=True)
class Resource(dialect.Resource):
    """A resource in a domain."""

    lists: lists.Paged
    whole_list: str = ""
    """The policy rule for the whole list, if it differs from the rule of the list; other callers find their own records
    by name.
    """
    guarded: Collection[str] = ()
    """HTTP methods at the path of a record, or below it, with which a domain administrator could get the rights of a
    cloud administrator.
    """


class DomainView(dialect.ResourceView):
    """A resource whose rule depends on its domain."""

    def allows_in(self, rule: str, domain_id: str) -> bool:
        """Whether the rule allows the caller in that domain."""
        return policy.allows(self.context, rule, {"domain_id": domain_id})


class RecordView(DomainView):
    """One record by the id in the path, and its domain."""

    def policy_target(self) -> dict[str, object]:
        """Return the ids of the record and its domain."""
        name = self.resource.parameter
        return {name: self.ids[name], "domain_id": self.found.domain_id if self.found else None}

    def check_rule(self, request: Request) -> None:
        """Check the policy. A refused caller gets 404 if the rule would allow the request in the domain of the caller's
        token, otherwise 403. Domain administrators cannot use ``guarded`` methods on cloud administrators.
        """
        try:
            super().check_rule(request)
        except ForbiddenError:
            self.hide(self.rule_of(str(request.method)) or "")
            raise
        if request.method in self.resource.guarded and self.found:
            safeguards.refuse_superior(self.context, self.found)

    def hide(self, rule: str) -> None:
        """Raise NotFoundError if the rule allows the caller in the domain of the token: the object is in another domain
        or does not exist.
        """
        own = self.context.domain_id
        if own is not None and policy.allows(self.context, rule, {"domain_id": own}):
            key = str(self.ids.get(self.resource.parameter, ""))
            raise NotFoundError(f"Could not find {self.resource.name}: {key[:64]}.")


class RecordDetailView(RecordView, dialect.DetailView):
    """``/v3/{resources}/{id}``."""


class CollectionView(DomainView, dialect.ListView):
    """A list, and the creation of its members."""

    everything = False
    """Whether the caller sees the whole list."""

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the token, or the domain that a new record specifies."""
        new = self.claimed(self.resource.name, "domain_id") if self.request.method == "POST" else None
        return {"domain_id": new if isinstance(new, str) else self.context.domain_id}

    @property
    def within(self) -> str | None:
        """The domain that lists are filtered by, which is the domain of the token."""
        return self.context.domain_id

    @property
    def default_domain(self) -> str:
        """The default domain of new records: the domain of the token, otherwise the domain of the user."""
        if self.context.domain_id is not None:
            return self.context.domain_id
        return self.context.project_domain_id if self.context.project_id else self.context.user_domain_id

    def domain_to_make_in(self, domain_id: str) -> Domain:
        """Return the domain of a new record. Raises NotFoundError if it does not exist, and ForbiddenError if the
        caller may not create records in it.
        """
        policy.enforce(self.context, self.rules["POST"], {"domain_id": domain_id})
        return existing(Domain, domain_id)

    def page(self) -> tuple[Sequence[Any], Json]:
        """Return the requested page. Raises ForbiddenError for callers who may not see the whole list, unless they
        filter by name.

        Clients look a record up by id first and then in a list filtered by name, so every user must be able to find its
        own records by name. As in Keystone, a caller who finds none gets 403, upon which clients use the name as an id.
        Pages after the first may be empty.
        """
        rule, target = self.resource.whole_list or self.resource.list.rule, self.policy_target()
        self.everything = policy.allows(self.context, rule, target)
        if "name" not in self.request.query_params:
            policy.enforce(self.context, rule, target)
        rows, beside = super().page()
        if not rows and "marker" not in self.request.query_params:
            policy.enforce(self.context, rule, target)
        return rows, beside


DIRECTORY = replace(dialect.IDENTITY, lists=CollectionView, details=RecordDetailView)


def _different(items: Schema, most: int, least: int = 0) -> Schema:
    """Return the schema of a list of unique items; uniqueness is checked only within the maximum length, to limit the
    cost.
    """
    few = {"if": {"maxItems": most}, "then": {"uniqueItems": True}}
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **few}


TAGS = Checked(_different({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^,/]*$"}, 80))

_METHODS = _different({"type": "string", "minLength": 1, "maxLength": 64}, 16, least=1)
_SWITCH: Schema = {"type": ["boolean", "null"]}
USER_OPTIONS = Checked(
    {
        "type": "object",
        "properties": {
            "ignore_change_password_upon_first_use": _SWITCH,
            "ignore_password_expiry": _SWITCH,
            "ignore_lockout_failure_attempts": _SWITCH,
            "lock_password": _SWITCH,
            "multi_factor_auth_enabled": _SWITCH,
            "multi_factor_auth_rules": _different(_METHODS, 32) | {"type": ["array", "null"]},
        },
        "additionalProperties": False,
    }
)
