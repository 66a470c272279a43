"""The user's own name, email address, description and default project."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.settings.base import SettingsPage
from portal.dashboard.settings.forms import ProfileForm
from provisioning.identity import policy
from provisioning.identity.models import User
from provisioning.identity.selectors.lookups import existing, role_records
from provisioning.identity.services.users import update_user

UPDATE = "novella:update_profile"


class Profile(FormPage, SettingsPage):
    """Shows the user's own record, with the form to edit it."""

    edits = True
    own_page = "dashboard:settings"
    template = "dashboard/settings/profile.html"

    def read_again(self) -> None:
        self.user = existing(User, self.user.pk)

    def form(self, data: QueryDict | None = None) -> Form:
        if data is not None:
            policy.enforce(self.context, UPDATE, self.target())
        return ProfileForm(data, self.user, self.entries().projects, can_update=self.may(UPDATE))

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        update_user(self.user, email=typed["email"], description=typed["description"], default_project=typed["project"])
        return self.go("dashboard:settings", message="Your settings were saved.")

    @property
    def copies(self) -> bool:
        """Whether the API allows users to update their own records."""
        return self.allows("identity:update_user", {**self.target(), "domain_id": self.user.domain_id})

    def calls(self, form: Form) -> Sequence[Call]:
        changed = changes(form)
        if "project" in changed:
            project = form.cleaned_data["project"]
            changed["default_project_id"] = project.id.hex if project else None
        return edit(copied.USER_EDIT, {"user": self.user.id.hex}, changed)

    def extra_context(self) -> Mapping[str, Any]:
        roles = role_records(self.context.roles)
        return {"person": self.user, "roles": roles, "can_update": self.may(UPDATE)}
