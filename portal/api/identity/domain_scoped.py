"""The base of views of records that the administrator of a domain manages inside it, and never sees outside it."""

from dataclasses import dataclass
from typing import ClassVar

from rest_framework.request import Request

from portal.api.common.views import ServiceView
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors.lookups import by_id


@dataclass(frozen=True, slots=True)
class AddressedRecord:
    """What a part of the address names: of which model, its id as it was given, and the record if there is one."""

    model: type[Domain | Group | Project | Role | User]
    text: str
    record: Domain | Group | Project | Role | User | None

    @property
    def kind(self) -> str:
        return self.model.__name__.lower()

    @property
    def domain_id(self) -> str | None:
        """The domain that it is in, or is; None: of no domain, or not there."""
        if self.record is None:
            return None
        return self.record.id if isinstance(self.record, Domain) else self.record.domain_id

    def missing(self) -> NotFoundError:
        return NotFoundError(f"Could not find {self.kind}: {self.text[:64]}.")


class DomainScopedView(ServiceView):
    """Looks up what the address names before the policy is asked, and answers 404 for what is not there.

    Who may not see whether it is there is answered 403 alike.  To administrator and manager of a domain, who may see
    what is in the domain, everything else is answered like what does not exist.
    """

    models: ClassVar[dict[str, type[Domain | Group | Project | Role | User]]] = {
        "domain_id": Domain,
        "group_id": Group,
        "project_id": Project,
        "role_id": Role,
        "prior_role_id": Role,
        "implied_role_id": Role,
        "user_id": User,
    }
    addressed: dict[str, AddressedRecord]

    def check_rule(self, request: Request) -> None:
        """Look up, ask, and then say what is missing."""
        self.addressed = {
            name: AddressedRecord(self.models[name], text, by_id(self.models[name], text))
            for name, text in self.kwargs.items()
        }
        try:
            super().check_rule(request)
        except ForbiddenError:
            self._hide()
            raise
        for found in self.addressed.values():
            if found.record is None:
                raise found.missing()

    def _hide(self) -> None:
        own = self.context.domain_id
        within = (policy.allows(self.context, rule, {"domain_id": own}) for rule in ("domain_admin", "domain_manager"))
        if own is None or not any(within):
            return
        for found in self.addressed.values():
            if found.record is None or found.domain_id not in ({own, None} if found.kind == "role" else {own}):
                raise found.missing()

    def role(self, name: str = "role_id") -> Role:
        record = self.addressed[name].record
        assert isinstance(record, Role)  # noqa: S101 - check_rule has seen to it
        return record
