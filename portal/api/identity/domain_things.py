"""Views of things that the administrator of a domain may manage inside it; what is outside does not exist there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rest_framework.request import Request

from portal.api.common.views import ServiceView
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy, selectors
from provisioning.identity.models import Domain, Group, Project, Role, User


@dataclass(frozen=True, slots=True)
class Thing:
    """What a part of the address names: its kind, its id as it was given, and the record if there is one."""

    kind: str
    text: str
    record: Domain | Group | Project | Role | User | None

    @property
    def domain_id(self) -> str | None:
        """The domain that it is in, or is; None: of no domain, or not there."""
        if self.record is None:
            return None
        return self.record.id if isinstance(self.record, Domain) else self.record.domain_id

    def missing(self) -> NotFoundError:
        """The error for a thing that is not there."""
        return NotFoundError(f"Could not find {self.kind}: {self.text[:64]}.")


class DomainThingsView(ServiceView):
    """Looks up what the address names before the policy is asked, and answers 404 for what is not there.

    Who may not see whether it is there is answered 403 alike.  To the administrator of a domain, who may see what is in
    the domain, everything else is answered like what does not exist.
    """

    kinds: ClassVar[dict[str, str]] = {
        "domain_id": "domain",
        "group_id": "group",
        "project_id": "project",
        "role_id": "role",
        "prior_role_id": "role",
        "implied_role_id": "role",
        "user_id": "user",
    }
    things: dict[str, Thing]

    def check_rule(self, request: Request) -> None:
        """Look up, ask, and then say what is missing."""
        self.things = {
            name: Thing(self.kinds[name], text, selectors.record_of(self.kinds[name], text))
            for name, text in self.kwargs.items()
        }
        try:
            super().check_rule(request)
        except ForbiddenError:
            self._hide()
            raise
        for thing in self.things.values():
            if thing.record is None:
                raise thing.missing()

    def _hide(self) -> None:
        own = self.context.domain_id
        if own is None or not policy.allows(self.context, "domain_admin", {"domain_id": own}):
            return
        for thing in self.things.values():
            if thing.record is None or thing.domain_id not in ({own, None} if thing.kind == "role" else {own}):
                raise thing.missing()

    def role(self, name: str = "role_id") -> Role:
        """Return a role that the address names."""
        record = self.things[name].record
        assert isinstance(record, Role)  # noqa: S101 - check_rule has seen to it
        return record
