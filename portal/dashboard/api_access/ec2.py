"""EC2 credentials of the user in the current project."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.api_access import ec2_files
from portal.dashboard.api_access.listing import CREATE, DELETE, EC2_CREDENTIALS, access_key
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds.identity import EC2_CREDENTIAL
from portal.dashboard.frame.pages import Page
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Credential, User
from provisioning.identity.selectors.credentials import existing_credential, project_to_enter
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.credentials import EC2, delete_credential
from provisioning.identity.services.ec2 import create_ec2_credential

LIST = "dashboard:ec2_credentials"


class Ec2Page(Page):
    """Base of the pages of EC2 credentials; the policy target is the signed-in user."""

    section = "api_access"
    back_to = LIST
    rule = "identity:ec2_list_credentials"

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        return {"user_id": self.context.user_id}

    def user(self) -> User:
        return existing(User, self.context.user_id.hex if self.context.user_id else "")


class Ec2CredentialList(ListPage, Ec2Page):
    """The list of the user's EC2 credentials in this project, without their secrets."""

    records = EC2_CREDENTIALS
    template = "dashboard/api_access/ec2.html"
    heading, parents = "EC2 credentials", [("API access", "dashboard:api_access")]

    def extra_context(self) -> Mapping[str, Any]:
        return {"endpoint": ec2_files.endpoint(self.request), "region": ec2_files.region()}


@method_decorator(never_cache, name="dispatch")
class Ec2CredentialCreate(Ec2Page):
    """``POST`` creates a credential and shows its secret once; ``GET`` redirects to the list."""

    http_method_names = ["get", "post"]
    rule = CREATE

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect(LIST)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Create the credential; only this response contains the secret. *Copy as* shows the calls instead."""
        user, project_id = self.user(), self.context.project_id
        if self.asks_for_copies():
            owner = {"user_id": user.id.hex, "project_id": project_id.hex if project_id else ""}
            return self.show_copies([Call(EC2_CREDENTIAL, owner)], "Create an EC2 credential", reverse(LIST))
        project = project_to_enter(self.context, user.id, project_id.hex if project_id else "")
        access, secret = create_ec2_credential(user, project, caller=self.context)
        context = {
            "access": access,
            "secret": secret,
            "files": ec2_files.files(self.request, access, secret),
            "profile": ec2_files.PROFILE,
        }
        return self.page("dashboard/api_access/ec2_created.html", context, status=201)


class Ec2CredentialDelete(QuestionPage, Ec2Page):
    """Asks for confirmation, and revokes an EC2 credential."""

    rule = DELETE
    question = "Revoke this EC2 credential?"
    label = "Revoke"
    message = "{name} was revoked."

    def find(self) -> None:
        """Find an EC2 credential of the user in this project. Raises NotFoundError."""
        found = existing_credential(self.context, self.kwargs["credential_id"])
        if found.type != EC2 or found.project_id != self.context.project_id:
            raise NotFoundError(f"Could not find credential: {self.kwargs['credential_id'][:64]}.")
        self.record = found

    def text(self) -> str:
        return f"Requests signed with {_called(self.record)} will be refused. This cannot be undone."

    def name(self) -> str:
        called = _called(self.record)
        return f"{called[:1].upper()}{called[1:]}"

    def do(self) -> None:
        delete_credential(self.record, caller=self.context)


def _called(record: Credential) -> str:
    access = access_key(record)
    return f"the access key {access[:48]}" if access else "an access key that cannot be read"
