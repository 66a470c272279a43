"""EC2 credentials of the user in the current project: the list, without their secrets, creation and deletion."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from portal.dashboard.api_access import ec2_files
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds.identity import EC2_CREDENTIAL
from portal.dashboard.frame.pages import Page
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, HeadLink, RecordList
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, UnavailableError
from provisioning.identity import policy
from provisioning.identity.models import Credential, User
from provisioning.identity.selectors.credentials import ec2_credentials, existing_credential, project_to_enter
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.credentials import EC2, blob_of, delete_credential, ec2_keys
from provisioning.identity.services.ec2 import create_ec2_credential

Row = dict[str, Any]
CREATE = "identity:ec2_create_credential"
DELETE = "identity:ec2_delete_credential"


def access_key(record: Credential) -> str:
    """Return the access key, or an empty text if the encryption key of the credential is missing."""
    try:
        return ec2_keys(blob_of(record)).access
    except UnavailableError:
        return ""


def _rows(context: RequestContext, credentials: Sequence[Credential]) -> list[Row]:
    can_delete = policy.allows(context, DELETE, {"user_id": context.user_id})
    return [{"credential": each, "access": access_key(each), "can_delete": can_delete} for each in credentials]


def _access(row: Row) -> SafeString:
    shown: SafeString
    if row["access"]:
        shown = cells.copy(row["access"], format_html("<code>{}</code>", row["access"]), "the access key")
    else:
        sign = cells.icon("exclamation-triangle-fill")
        shown = format_html('<span class="status warn">{}Unreadable</span>', sign)
        shown += cells.sub("Its encryption key is missing. It cannot be used to sign in.")
    creator = row["credential"].application_credential
    if creator is not None:
        text = "created with the application credential {}, and deleted with it"
        shown += cells.sub(format_html(text, cells.bdi(creator.name)))
    return shown


def _buttons(row: Row) -> object:
    if not row["can_delete"]:
        return ""
    name = row["access"] or "the unreadable credential"
    return cells.button("trash", "Revoke", name, "dashboard:ec2_credential_delete", row["credential"].id)


def _search(_: RequestContext, text: str) -> Q:
    """Match a whole access key; access keys are stored encrypted, under their hash."""
    return Q(pk=hashlib.sha256(text.encode()).hexdigest()) | Q(pk=text)


EC2_CREDENTIALS = RecordList[Credential](
    key="ec2_credentials",
    model=Credential,
    one="EC2 credential",
    noun="EC2 credentials",
    rule="identity:ec2_list_credentials",
    row_id="credential",
    records=lambda context, _: ec2_credentials(context),
    rows=_rows,
    default="created",
    columns=(
        Column("access", "Access key", _access, plain=lambda row: row["access"], css="name", titled=False),
        Column(
            "created",
            "Created",
            lambda row: cells.when(row["credential"].created_at),
            sort="created_at",
            plain=lambda row: row["credential"].created_at,
            css="muted num text-nowrap",
            largest_first=True,
        ),
        Column("id", "ID", lambda row: row["credential"].id, css="mono xsmall muted breaks", optional=True),
    ),
    actions=_buttons,
    search=_search,
    find="Find by access key or ID",
    named=lambda record: access_key(record) or record.id,
    empty=Empty(
        "key",
        "No EC2 credentials in this project yet",
        "An access key and its secret sign the requests of programs that were written for Amazon EC2. They work for "
        "this project alone, with your roles.",
    ),
    create=HeadLink("Create credential", "dashboard:ec2_credential_create", rule=CREATE),
)


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
        credential = existing_credential(self.context, self.kwargs["credential_id"])
        if credential.type != EC2 or credential.project_id != self.context.project_id:
            raise NotFoundError(f"Could not find credential: {self.kwargs['credential_id'][:64]}.")
        self.record = credential

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
