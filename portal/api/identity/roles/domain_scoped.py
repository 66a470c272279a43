"""Base of views of records that a domain administrator manages in the domain and cannot see outside it."""

from collections.abc import Mapping
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
    """A record named in the path: its model, the id as text, and the record if it exists."""

    model: type[Domain | Group | Project | Role | User]
    text: str
    record: Domain | Group | Project | Role | User | None

    @property
    def kind(self) -> str:
        return self.model.__name__.lower()

    @property
    def domain_id(self) -> str | None:
        """The domain of the record, or the domain itself; None without a domain or a record."""
        if self.record is None:
            return None
        return self.record.id if isinstance(self.record, Domain) else self.record.domain_id

    def missing(self) -> NotFoundError:
        return NotFoundError(f"Could not find {self.kind}: {self.text[:64]}.")


class DomainScopedView(ServiceView):
    """Looks up the records in the path before the policy check, and answers 404 if a record is missing.

    Callers without permission get 403 whether or not the record exists. For the administrator and manager of a domain,
    records of other domains do not exist.
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

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids in the path by parameter."""
        return dict(self.kwargs)

    def check_rule(self, request: Request) -> None:
        """Look up the records, check the policy, and then raise NotFoundError for missing records."""
        self.addressed = {
            name: AddressedRecord(self.models[name], text, by_id(self.models[name], text))
            for name, text in self.ids.items()
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
        assert isinstance(record, Role)  # noqa: S101 - check_rule has checked it
        return record
