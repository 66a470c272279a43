"""Groups: the list, the detail page with members and roles, and the actions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity import base
from portal.dashboard.identity.base import GroupPage
from portal.dashboard.identity.forms import GroupUserForm, RecordForm
from portal.dashboard.identity.frames import DeletePage, ListPage, RecordFormPage
from portal.dashboard.identity.listing import GROUPS, group_users
from portal.dashboard.identity.members import LIST
from portal.dashboard.identity.places import GRANT, REVOKE, least_grant
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Group, User
from provisioning.identity.selectors import dashboard_lists, members
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.groups import (
    add_to_group,
    create_group,
    delete_group,
    remove_from_group,
    update_group,
)

REMOVE = "identity:remove_user_from_group"


class GroupList(ListPage):
    """All groups of the cloud, or of the managed domain."""

    records = GROUPS
    lead = "Users with the same roles. A user who is removed from a group loses its roles immediately."


class GroupCreate(RecordFormPage):
    """The form for a new group."""

    section = "groups"
    kind = "group"
    rule = "identity:create_group"

    def form(self, data: QueryDict | None = None) -> Form:
        initial = {"domain": self.within or self.context.user_domain_id}
        domains = dashboard_lists.all_domains(within=self.within)
        return RecordForm(data, initial=initial, domains=domains, within=self.within)

    def save(self, form: Form) -> HttpResponse:
        """Create the group and redirect to its page, where members can be added."""
        typed = form.cleaned_data
        self.check_domain(typed["domain"])
        group = create_group(typed["domain"], typed["name"], description=typed["description"])
        return self.go("dashboard:group_page", group.id, message=f"{bdi(group.name)} was created. Now add users to it.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        return [Call(copied.GROUP, {**typed, "domain_id": typed["domain"].id})]


class GroupDetail(GroupPage, ListPage):
    """The page of one group: the list of its users, and its roles."""

    rule = "identity:get_group"
    template = "dashboard/identity/group.html"
    parents = (("Groups", "dashboard:groups"),)

    def get(self, request: HttpRequest, **_: Any) -> HttpResponseBase:
        group = self.record
        self.heading = group.name
        self.records = group_users(group, can_remove=self.allows(REMOVE, base.target_of(group)))
        return super().get(request)

    def extra_context(self) -> Mapping[str, Any]:
        group = self.record
        target = base.target_of(group)
        grants = {**target, **least_grant(group.domain_id)}
        adds = self.allows("identity:add_user_to_group", target)
        add = reverse("dashboard:group_user_add", args=[group.id]) if adds else ""
        return {
            "group": group,
            "part": {"heading": "Users", "add": add, "label": "Add user"},
            "standings": members.memberships_of(group, within=self.within) if self.allows(LIST, target) else None,
            "may": {
                "update": self.allows("identity:update_group", target),
                "delete": self.allows("identity:delete_group", target),
                "grant": self.allows(GRANT, grants),
                "revoke": self.allows(REVOKE, grants),
            },
        }


class GroupEdit(RecordFormPage, GroupPage):
    """The form for a group's name and description."""

    edits = True
    rule = "identity:update_group"

    def form(self, data: QueryDict | None = None) -> Form:
        return RecordForm(data, initial={"name": self.record.name, "description": self.record.description})

    def save(self, form: Form) -> HttpResponse:
        update_group(self.record, **form.cleaned_data)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.GROUP_EDIT, {"group": self.record.id.hex}, changes(form))


class GroupDelete(DeletePage[Group], GroupPage):
    """Asks for confirmation, and deletes a group."""

    rule = "identity:delete_group"
    consequence = "Its members lose the roles of the group immediately. The users are not deleted."
    remove = staticmethod(delete_group)


class GroupUserAdd(FormPage, GroupPage):
    """The form to add a user to a group, with a search."""

    rule = "identity:add_user_to_group"
    template = "dashboard/identity/group_add.html"

    def form(self, data: QueryDict | None = None) -> Form:
        text, within = base.search_of(self.request.GET), self.within
        users = dashboard_lists.users_to_choose(text, within=within, beside=self.record)
        return GroupUserForm(data, users, within=within)

    def save(self, form: Form) -> HttpResponse:
        group, user = self.record, form.cleaned_data["who"]
        add_to_group(group, user)
        return self.go(self.back(), message=f"{bdi(user.name)} is in {bdi(group.name)} now.")

    def calls(self, form: Form) -> Sequence[Call]:
        group, user = self.record.id.hex, form.cleaned_data["who"].id.hex
        return [Call(copied.GROUP_USER, {"group_id": group, "user_id": user, "group": group})]

    def extra_context(self) -> Mapping[str, Any]:
        return {"group": self.record, "text": base.search_of(self.request.GET)}


class GroupUserRemove(QuestionPage, GroupPage):
    """Asks for confirmation, and removes a user from a group."""

    rule = REMOVE
    question = "Remove {user} from {name}?"
    consequence = "The user loses the roles of the group immediately, including on open pages."
    label = "Remove"
    message = "{user} was removed from {name}."
    stays = True

    def find(self) -> None:
        """Find the user. Raises NotFoundError if the user does not exist, or is not in the token's domain."""
        self.user = existing(User, self.kwargs["user_id"])
        if self.within and self.user.domain_id != self.within:
            raise NotFoundError("There is no such user.")

    def words(self) -> Mapping[str, object]:
        return {**super().words(), "user": bdi(self.user.name)}

    def do(self) -> None:
        remove_from_group(self.record, self.user)
