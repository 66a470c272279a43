"""The list of the user's application credentials."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same_id, searched
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.identity.models import ApplicationCredential
from provisioning.identity.selectors.credentials import own_application_credentials
from provisioning.identity.selectors.tokens import last_uses

Row = dict[str, Any]
CREATE = "identity:create_application_credential"
DELETE = "identity:delete_application_credential"


def _rows(context: RequestContext, application_credentials: Sequence[ApplicationCredential]) -> list[Row]:
    used = last_uses([each.id for each in application_credentials])
    can_delete = policy.allows(context, DELETE, {"user_id": context.user_id})
    now = timezone.now()
    return [
        {
            "credential": each,
            "roles": sorted(role.name for role in each.roles.all()),
            "rules": len(each.access_rules.all()),
            "expired": each.expires_at is not None and each.expires_at <= now,
            "used": used.get(each.id),
            "can_delete": can_delete,
        }
        for each in application_credentials
    ]


def _name(row: Row) -> object:
    credential = row["credential"]
    warning = cells.NOTHING
    if credential.unrestricted:
        sign = cells.icon("exclamation-triangle-fill")
        warning = format_html(' <span class="status warn">{}Unrestricted</span>', sign)
    text = credential.description
    below = cells.sub(cells.bdi(text if len(text) <= 120 else f"{text[:119]}…"))
    return cells.name(credential.name) + warning + below


def _roles(row: Row) -> object:
    rules = cells.NOTHING
    if row["rules"]:
        text = cells.count(row["rules"], "access rule")
        rules = format_html(' <span class="tag" title="It may send only certain requests">{}</span>', text)
    return cells.join(" ", map(cells.tag, row["roles"])) + rules


def _expires(row: Row) -> SafeString | str:
    if row["expired"]:
        return format_html('<span class="status off">{}Expired</span>', cells.icon("clock-history"))
    return cells.when(row["credential"].expires_at, "minutes", "never")


def _used(row: Row) -> SafeString | str:
    used: datetime | None = row["used"]
    return cells.ago(used) if used else "not lately"


def _buttons(row: Row) -> object:
    credential = row["credential"]
    if not row["can_delete"]:
        return ""
    return cells.button("trash", "Delete", credential.name, "dashboard:application_credential_delete", credential.id)


def _projects(context: RequestContext) -> list[tuple[str, str]]:
    credentials = own_application_credentials(context).order_by("project__name", "project").distinct()
    return [(str(key), name) for key, name in credentials.values_list("project", "project__name")]


def _valid(_: RequestContext, value: str) -> Q:
    over = Q(expires_at__lte=timezone.now())
    return over if value == "expired" else ~over | Q(expires_at=None)


APPLICATION_CREDENTIALS = RecordList[ApplicationCredential](
    key="application_credentials",
    model=ApplicationCredential,
    one="application credential",
    noun="application credentials",
    rule="identity:list_application_credentials",
    row_id="credential",
    records=lambda context, _: own_application_credentials(context),
    detail=lambda _, rows: rows.select_related("project").prefetch_related("roles", "access_rules"),
    rows=_rows,
    default="name",
    columns=(
        columns.name(_name, lambda row: row["credential"].name),
        Column(
            "project",
            "Project",
            lambda row: cells.bdi(row["credential"].project.name),
            sort=Lower("project__name"),
        ),
        Column("roles", "Roles", _roles, plain=lambda row: ", ".join(row["roles"])),
        Column(
            "expires",
            "Expires",
            _expires,
            sort="expires_at",
            plain=lambda row: row["credential"].expires_at,
            css="muted num text-nowrap",
        ),
        Column("used", "Last used", _used, plain=lambda row: row["used"], css="muted num text-nowrap"),
        columns.age("credential", optional=True),
        columns.ident("credential"),
    ),
    actions=_buttons,
    search=searched("name", "description"),
    filters=(
        Filter("project", "Project", _projects, same_id("project"), closed=False),
        Filter("state", "State", fixed(("valid", "Valid"), ("expired", "Expired")), _valid, quick=True),
    ),
    empty=Empty(
        "robot",
        "No application credentials yet",
        "Give each program one of its own: a backup job, Terraform, a pipeline. Deleting it revokes the access of that "
        "program only, and your password stays private.",
    ),
    create=HeadLink(
        "Create credential", "dashboard:application_credential_create", rule=CREATE, first="Create the first one"
    ),
)
