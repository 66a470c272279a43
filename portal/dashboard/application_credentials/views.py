"""Application credentials of the user."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.application_credentials.forms import CredentialForm
from portal.dashboard.application_credentials.listing import APPLICATION_CREDENTIALS, CREATE, DELETE
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.client_files import CLOUD, application_credential_files
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from provisioning.common.errors import ForbiddenError
from provisioning.identity.models import Project, User
from provisioning.identity.selectors.credentials import (
    existing_application_credential,
)
from provisioning.identity.selectors.lookups import existing, role_records
from provisioning.identity.services.application_credentials import (
    create_application_credential,
    delete_application_credential,
)

LIST = "dashboard:application_credentials"


class CredentialPage(Page):
    """Base of the pages of this panel; the policy target is the user."""

    section = "application_credentials"
    back_to = LIST
    rule = "identity:list_application_credentials"

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        return {"user_id": self.context.user_id}

    def user(self) -> User:
        return existing(User, self.context.user_id.hex if self.context.user_id else "")


class CredentialList(ListPage, CredentialPage):
    """The list of the user's application credentials in all projects."""

    records = APPLICATION_CREDENTIALS
    lead = (
        "A program signs in with one of these on your behalf, without your password and only with the roles that "
        "it needs."
    )


@method_decorator(never_cache, name="dispatch")
class CredentialCreate(FormPage, CredentialPage):
    """The form for a new credential, whose secret is shown once."""

    rule = CREATE
    template = "dashboard/application_credentials/create.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return CredentialForm(data, role_records(self.context.roles))

    def save(self, form: Form) -> HttpResponse:
        """Create the credential; only this response contains the secret."""
        options = form.cleaned_data
        record, secret = create_application_credential(self.user(), self._project(), caller=self.context, **options)
        context = {
            "credential": record,
            "secret": secret,
            "roles": [role.name for role in options["roles"]],
            "files": application_credential_files(self.request, record.id.hex, secret),
            "example": f"openstack --os-cloud {CLOUD} server list",
        }
        return self.page("dashboard/application_credentials/created.html", context, status=201)

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        expiry = typed["expires_at"]
        values = {
            "user_id": self.context.user_id.hex if self.context.user_id else "",
            "roles": [role.name for role in typed["roles"]],
            "expires_at": f"{expiry:%Y-%m-%dT%H:%M:%S}" if expiry else "",
            "access_rules": [
                {"service": rule.service, "method": rule.method, "path": rule.path} for rule in typed["access_rules"]
            ],
        }
        return [Call(copied.APPLICATION_CREDENTIAL, {**typed, **values})]

    def _project(self) -> Project:
        project = next((each for each in self.entries().projects if each.id == self.context.project_id), None)
        if project is None:
            raise ForbiddenError("You have no role on this project.")
        return project


class CredentialDelete(QuestionPage, CredentialPage):
    """Asks for confirmation, and deletes an application credential."""

    rule = DELETE
    consequence = "Programs that sign in with it are refused at their next request. This cannot be undone."

    def find(self) -> None:
        self.record = existing_application_credential(self.user(), self.kwargs["credential_id"].hex)

    def do(self) -> None:
        delete_application_credential(self.record, caller=self.context)
