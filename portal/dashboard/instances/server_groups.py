"""Server groups: the list, create and delete."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form, WholeNumberField
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.refusals import RecordForm
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute.models import ServerGroup
from provisioning.compute.selectors import server_groups as selectors
from provisioning.compute.services import server_groups as services
from provisioning.identity import policy

HOME = "dashboard:server_groups"
LIST, CREATE, DELETE = (f"os_compute_api:os-server-groups:{verb}" for verb in ("index", "create", "delete"))
POLICIES = {
    "anti-affinity": "Different hosts",
    "soft-anti-affinity": "Different hosts, if possible",
    "affinity": "The same host",
    "soft-affinity": "The same host, if possible",
}
"""Policy → its label."""
NAMED = 5
"""Maximum number of instances that a row names."""
Row = dict[str, Any]


def _rows(context: RequestContext, server_groups: Sequence[ServerGroup]) -> list[Row]:
    members = defaultdict(list)
    for each in selectors.members_for(context, server_groups):
        members[each.server_group_id].append(each)
    can_delete = policy.allows(context, DELETE)
    return [{"group": each, "members": members[each.id], "can_delete": can_delete} for each in server_groups]


def _policy(row: Row) -> object:
    name = row["group"].policy
    return cells.name(POLICIES.get(name, name), below=name)


def _members(row: Row) -> object:
    members = row["members"]
    links = [cells.link(each.name, "dashboard:instance", each.id) for each in members[:NAMED]]
    more = len(members) - len(links)
    return cells.join(", ", links) + cells.sub(f"and {more} more" if more else "")


def _delete(row: Row) -> object:
    group = row["group"]
    if not row["can_delete"]:
        return ""
    return cells.button("trash", "Delete", group.name, "dashboard:server_group_delete", group.id)


SERVER_GROUPS = RecordList[ServerGroup](
    key="server_groups",
    model=ServerGroup,
    one="server group",
    noun="server groups",
    rule=LIST,
    row_id="server-group",
    records=lambda context, _: selectors.visible_server_groups(context),
    rows=_rows,
    default="name",
    columns=(
        columns.name(lambda row: cells.name(row["group"].name), lambda row: row["group"].name),
        Column("policy", "Placement", _policy, sort="policy", plain=lambda row: row["group"].policy),
        Column(
            "most", "Per host", lambda row: _most(row["group"]), sort="max_server_per_host", css="num", optional=True
        ),
        Column("members", "Instances", _members, plain=lambda row: ", ".join(each.name for each in row["members"])),
        columns.age("group"),
        columns.ident("group"),
    ),
    actions=_delete,
    search=searched("name"),
    filters=(Filter("policy", "Placement", fixed(*POLICIES.items()), same("policy")),),
    empty=Empty(
        "boxes",
        "No server groups yet",
        "A server group places instances on different hosts, so that they do not fail together, or on the same host. "
        "The launch wizard offers the groups of the project.",
    ),
    create=HeadLink(
        "New server group", "dashboard:server_group_create", rule=CREATE, asks=True, first="Create the first group"
    ),
)


def _most(group: ServerGroup) -> object:
    """Return the maximum number of the group's instances on one host; empty for policies without a maximum."""
    return group.max_server_per_host or 1 if group.policy == ServerGroup.Policy.ANTI_AFFINITY else ""


class ServerGroupList(ListPage):
    """The project's server groups with their instances."""

    records = SERVER_GROUPS
    lead = "Where the scheduler places the instances of a group. An instance joins a group when it is launched."


class ServerGroupForm(RecordForm):
    """The name and placement of a new group, which cannot be changed later."""

    service_fields = {"rules": "max_server_per_host"}

    name = forms.CharField(max_length=255)
    policy = forms.ChoiceField(
        label="Placement", choices=list(POLICIES.items()), initial="anti-affinity", widget=forms.RadioSelect
    )
    max_server_per_host = WholeNumberField(
        label="Instances of the group on one host",
        min_value=1,
        required=False,
        help_text="Only for the policy Different hosts. Leave it empty for 1.",
    )


class ServerGroupCreate(SheetPage):
    """Creates a server group in the project."""

    section = "server_groups"
    back_to = HOME
    rule = CREATE
    heading, submit = "New server group", "Create server group"

    def form(self, data: QueryDict | None = None) -> Form:
        return ServerGroupForm(data)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        most = typed["max_server_per_host"]
        group = services.create_server_group(self.context, typed["name"], typed["policy"], most)
        return self.go(HOME, message=f"{bdi(group.name)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        most = typed["max_server_per_host"]
        rules = {"max_server_per_host": most} if most else {}
        return [Call(copied.SERVER_GROUP, {"name": typed["name"], "policy": typed["policy"], "rules": rules})]


class ServerGroupDelete(QuestionPage, RecordPage[ServerGroup]):
    """Deletes a server group after confirmation; its instances are kept."""

    section = "server_groups"
    back_to = HOME
    rule = DELETE
    consequence = "Its instances are kept. They can be placed independently of each other from then on."

    def look_up(self, identity: uuid.UUID) -> ServerGroup:
        return selectors.server_group_for(self.context, identity)

    def do(self) -> None:
        services.delete_server_group(self.context, self.record.id)
