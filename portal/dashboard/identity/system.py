"""The system: its members, and links to the operators' pages."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.common.sign_in import operators_project
from portal.dashboard.identity.base import IdentityPage
from portal.dashboard.identity.members import members_shown
from provisioning.identity.models import User
from provisioning.identity.selectors.lookups import existing


class System(IdentityPage):
    """The members of the system, and links to the operators' pages."""

    section = "system"
    rule = "identity:list_system_grants_for_user"

    def get(self, request: HttpRequest) -> HttpResponse:
        context: dict[str, Any] = {
            **members_shown(self, "system"),
            "own_roles": sorted(self.context.roles) if self.context.system else [],
            "may": {},
            "operates": self.allows("novella:admin"),
            "project": operators_project(existing(User, self.context.user_id)) if self.context.user_id else None,
        }
        return self.page("dashboard/identity/system.html", context)
