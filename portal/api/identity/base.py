"""Bases of the views of resources in a domain. Domain administrators get 404 for resources of other domains."""

import functools
from typing import Any, ClassVar, Generic, TypeVar

from rest_framework.request import Request

from portal.api.common.views import ServiceView
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy, privilege_escalation
from provisioning.identity.directory.listing import Found
from provisioning.identity.models import Domain, Group, Project, User
from provisioning.identity.selectors.lookups import by_id, existing

Record = TypeVar("Record", Project, User, Group)


class DomainView(ServiceView):
    """A resource whose rule depends on its domain; ``what`` is the prefix of the path's id parameter."""

    what: ClassVar[str] = "resource"

    def check_rule(self, request: Request) -> None:
        """Check the policy. A refused caller gets 404 if the rule would allow the request in the domain of the caller's
        token, otherwise 403.
        """
        try:
            super().check_rule(request)
        except ForbiddenError:
            self.hide(self.rule_of(str(request.method)) or "")
            raise

    def hide(self, rule: str) -> None:
        """Raise NotFoundError if the rule allows the caller in the domain of the token: the object is in another domain
        or does not exist.
        """
        own = self.context.domain_id
        if own is not None and policy.allows(self.context, rule, {"domain_id": own}):
            raise self.missing()

    def missing(self) -> NotFoundError:
        return NotFoundError(f"Could not find {self.what}: {str(self.kwargs.get(f'{self.what}_id', ''))[:64]}.")

    def allows_in(self, rule: str, domain_id: str) -> bool:
        """Whether the rule allows the caller in that domain."""
        return policy.allows(self.context, rule, {"domain_id": domain_id})

    def refuse_operators(self, record: User | Group) -> None:
        """Raise ForbiddenError if a domain administrator would gain control of a cloud administrator."""
        privilege_escalation.refuse_superior(self.context, record)


class RecordView(DomainView, Generic[Record]):
    """One record of ``model`` by the id in the path, and its domain."""

    model: type[Record]

    @functools.cached_property
    def found(self) -> Record | None:
        """The record, or None if it does not exist."""
        return by_id(self.model, self.kwargs[f"{self.what}_id"])

    @property
    def record(self) -> Record:
        """The record. Raises NotFoundError."""
        if self.found is None:
            raise self.missing()
        return self.found

    def policy_target(self) -> dict[str, object]:
        """Return the ids of the record and its domain."""
        return {
            f"{self.what}_id": self.kwargs[f"{self.what}_id"],
            "domain_id": self.found.domain_id if self.found else None,
        }


class CollectionView(DomainView):
    """A list, and the creation of its members."""

    listing_rule: ClassVar[str]

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the token; creation in another domain checks the policy again."""
        return {"domain_id": self.context.domain_id}

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

    def sees_all(self, request: Request) -> bool:
        """Whether the caller sees the whole list. Raises ForbiddenError for other callers, unless they filter by name.

        Clients first send a name as an id and then as a filter, so that every user must be able to find its own records
        by name.
        """
        if policy.allows(self.context, self.listing_rule, self.policy_target()):
            return True
        if "name" not in request.query_params:
            policy.enforce(self.context, self.listing_rule, self.policy_target())
        return False

    def refuse_others(self, request: Request, found: Found[Any]) -> None:
        """Raise ForbiddenError, as Keystone does, if a caller who may not list finds no own record of this name.

        On 403, clients use the name as an id. Pages after the first may be empty.
        """
        if not found.rows and "marker" not in request.query_params:
            policy.enforce(self.context, self.listing_rule, self.policy_target())
