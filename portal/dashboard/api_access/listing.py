"""The list of the user's EC2 credentials in the current project, without their secrets."""

import hashlib
from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, HeadLink, RecordList
from provisioning.common.context import RequestContext
from provisioning.common.errors import UnavailableError
from provisioning.identity import policy
from provisioning.identity.models import Credential
from provisioning.identity.selectors.credentials import ec2_credentials
from provisioning.identity.services.credentials import blob_of, ec2_keys

Row = dict[str, Any]
CREATE = "identity:ec2_create_credential"
DELETE = "identity:ec2_delete_credential"


def access_key(record: Credential) -> str:
    """Return the access key, or an empty text if the encryption key of the credential is missing."""
    try:
        return ec2_keys(blob_of(record)).access
    except UnavailableError:
        return ""


def _rows(context: RequestContext, found: Sequence[Credential]) -> list[Row]:
    can_delete = policy.allows(context, DELETE, {"user_id": context.user_id})
    return [{"credential": each, "access": access_key(each), "can_delete": can_delete} for each in found]


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
            *("created", "Created", lambda row: cells.when(row["credential"].created_at)),
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
