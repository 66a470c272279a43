"""The bases of views of what belongs to a domain: its administrator is told 404 for what is in another domain."""

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
    """A resource whose rule asks in which domain the object is; ``what`` it is names the id in the address."""

    what: ClassVar[str] = "resource"

    def check_rule(self, request: Request) -> None:
        """Ask the policy; 404 for who would be allowed to in the domain of the token, and 403 for everybody else."""
        try:
            super().check_rule(request)
        except ForbiddenError:
            self.hide(self.rule_of(str(request.method)) or "")
            raise

    def hide(self, rule: str) -> None:
        """Raise NotFoundError when the caller may do this in the own domain: the object is elsewhere, or nowhere."""
        own = self.context.domain_id
        if own is not None and policy.allows(self.context, rule, {"domain_id": own}):
            raise self.missing()

    def missing(self) -> NotFoundError:
        return NotFoundError(f"Could not find {self.what}: {str(self.kwargs.get(f'{self.what}_id', ''))[:64]}.")

    def allows_in(self, rule: str, domain_id: str) -> bool:
        """Whether the caller may do this in that domain."""
        return policy.allows(self.context, rule, {"domain_id": domain_id})

    def refuse_operators(self, record: User | Group) -> None:
        """Raise ForbiddenError when a mere domain's administrator would get power over one of the cloud."""
        privilege_escalation.refuse_superior(self.context, record)


class RecordView(DomainView, Generic[Record]):
    """One record of ``model`` by the id in the address, and the domain that it is in."""

    model: type[Record]

    @functools.cached_property
    def found(self) -> Record | None:
        """The record, if there is one of this id."""
        return by_id(self.model, self.kwargs[f"{self.what}_id"])

    @property
    def record(self) -> Record:
        """The record; NotFoundError."""
        if self.found is None:
            raise self.missing()
        return self.found

    def policy_target(self) -> dict[str, object]:
        """A record is itself, in its domain."""
        return {
            f"{self.what}_id": self.kwargs[f"{self.what}_id"],
            "domain_id": self.found.domain_id if self.found else None,
        }


class CollectionView(DomainView):
    """A list, and making what is in it."""

    listing_rule: ClassVar[str]

    def policy_target(self) -> dict[str, object]:
        """Ask about the domain of the token first; what is made elsewhere is asked about again."""
        return {"domain_id": self.context.domain_id}

    @property
    def within(self) -> str | None:
        """The domain that lists are narrowed to: that of the token."""
        return self.context.domain_id

    @property
    def default_domain(self) -> str:
        """The domain of what is made without saying where: that of the token, or that of the user."""
        if self.context.domain_id is not None:
            return self.context.domain_id
        return self.context.project_domain_id if self.context.project_id else self.context.user_domain_id

    def domain_to_make_in(self, domain_id: str) -> Domain:
        """Return the domain in which something is to be made; ForbiddenError, NotFoundError without one."""
        policy.enforce(self.context, self.rules["POST"], {"domain_id": domain_id})
        return existing(Domain, domain_id)

    def sees_all(self, request: Request) -> bool:
        """Whether the caller sees the whole list; ForbiddenError for others who ask for no name: clients are given
        names for ids, so that everybody finds the own by name.
        """
        if policy.allows(self.context, self.listing_rule, self.policy_target()):
            return True
        if "name" not in request.query_params:
            policy.enforce(self.context, self.listing_rule, self.policy_target())
        return False

    def refuse_others(self, request: Request, found: Found[Any]) -> None:
        """Raise ForbiddenError, as Keystone does, for who may not list and whose own is not of that name.

        Clients that are told so take the name for an id and go on.  A further page may be empty.
        """
        if not found.rows and "marker" not in request.query_params:
            policy.enforce(self.context, self.listing_rule, self.policy_target())
