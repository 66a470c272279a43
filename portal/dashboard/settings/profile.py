"""Who one is to others, and where one starts."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.settings.base import SettingsPage
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.common.ids import read_id
from provisioning.identity import policy, selectors, services
from provisioning.identity.models import Project, User

UPDATE = "identity:profile:update"


class Profile(SettingsPage):
    """Name, domain, email address, description and the project that one starts in."""

    own_page = "dashboard:settings"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them."""
        user = self.user()
        values = {"email": user.email, "description": user.description, "project": str(user.default_project_id or "")}
        return self._form(user, values, {}, status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep what was changed."""
        user = self.user()
        policy.enforce(self.context, UPDATE, self.target())
        try:
            services.update_user(
                user,
                email=_email(request.POST),
                description=request.POST.get("description", "").strip(),
                default_project=self._project(request.POST.get("project", "")),
            )
        except NovellaError as error:
            values = {name: request.POST.get(name, "") for name in ("email", "description", "project")}
            return self._form(user, values, {error.field or "form": error.message}, status=422)
        return self.go("dashboard:settings", said="Your settings were saved.")

    def _project(self, chosen: str) -> Project | None:
        if not chosen:
            return None
        found = next((project for project in self.projects() if project.id == read_id(chosen)), None)
        if found is None:
            raise InvalidInputError("Choose a project that you have a role on.", field="project")
        return found

    def _form(self, user: User, values: dict[str, str], errors: dict[str, str], *, status: int) -> HttpResponse:
        context = {
            "person": user,
            "values": values,
            "errors": errors,
            "projects": self.projects(),
            "roles": selectors.role_records(self.context.roles),
            "can_update": self.may(UPDATE),
        }
        return self.tab("dashboard/settings/profile.html", context, status=status)


def _email(data: QueryDict) -> str:
    email = data.get("email", "").strip()
    try:
        if email:
            validate_email(email)
    except ValidationError as error:
        raise InvalidInputError("That is not an email address.", field="email") from error
    return email
