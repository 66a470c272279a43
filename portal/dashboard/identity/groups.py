"""Groups: the list, one with its members and roles, and what is done to them."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.identity import base
from portal.dashboard.identity.base import GroupPage
from portal.dashboard.identity.frames import FormPage, ListPage, QuestionPage
from portal.dashboard.identity.members import GRANT, REVOKE
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.identity import selectors, services
from provisioning.identity.models import Group
from provisioning.identity.selectors import members, panels


class GroupList(ListPage):
    """All groups of the cloud."""

    section = "groups"
    kind = "group"
    rule = "identity:groups:list"
    template = "dashboard/identity/groups.html"

    def find(self, wanted: panels.Wanted) -> panels.Found[Any]:
        """Find groups."""
        return panels.find_groups(wanted)

    def further(self) -> dict[str, Any]:
        """Add the domains."""
        return {"domains": panels.all_domains()}


class GroupCreate(FormPage):
    """A new group."""

    section = "groups"
    kind = "group"
    rule = "identity:groups:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self.show({"domain": self.context.user_domain_id})

    def save(self, data: QueryDict) -> HttpResponse:
        """Make it, and go to its page, where its members are."""
        group = services.create_group(
            base.domain_of(data, self.context.user_domain_id),
            base.text_of(data, "name"),
            description=base.text_of(data, "description"),
        )
        return self.go("dashboard:group_page", group.id, said=f"{group.name} is made. Now put users into it.")

    def choices(self) -> dict[str, Any]:
        """Offer the domains."""
        return {"domains": panels.all_domains()}


class GroupDetail(GroupPage):
    """One group."""

    rule = "identity:groups:show"

    def get(self, request: HttpRequest, group_id: uuid.UUID) -> HttpResponse:
        """Show members and roles."""
        group, wanted = self.group, base.wanted_of(request)
        target = base.target_of(group)
        shows_roles = self.allows("identity:role_assignments:list", target)
        context = {
            "group": group,
            "found": panels.users_in(group, wanted),
            "wanted": wanted,
            "standings": members.standings_of(group) if shows_roles else None,
            "may": {
                "update": self.allows("identity:groups:update", target),
                "delete": self.allows("identity:groups:delete", target),
                "add": self.allows("identity:groups:users:add", target),
                "remove": self.allows("identity:groups:users:remove", target),
                "grant": self.allows(GRANT, target),
                "revoke": self.allows(REVOKE, target),
            },
        }
        return self.page("dashboard/identity/group.html", context)


class GroupEdit(FormPage, GroupPage):
    """What people read about a group."""

    rule = "identity:groups:update"

    def get(self, request: HttpRequest, group_id: uuid.UUID) -> HttpResponse:
        """Show the form."""
        return self.show({"name": self.group.name, "description": self.group.description})

    def save(self, data: QueryDict) -> HttpResponse:
        """Change it."""
        services.update_group(
            self.group, name=base.text_of(data, "name"), description=base.text_of(data, "description")
        )
        return self.go(self.back(), said="Saved.")


class GroupDelete(QuestionPage[Group], GroupPage):
    """The end of a group."""

    rule = "identity:groups:delete"
    text = "Its members lose the roles that they have by it, at once. The users themselves stay."

    def post(self, request: HttpRequest, group_id: uuid.UUID) -> HttpResponse:
        """Delete."""
        name = self.group.name
        services.delete_group(self.group)
        return self.go("dashboard:groups", said=f"{name} was deleted.")


class GroupUserAdd(GroupPage):
    """One more user in a group."""

    rule = "identity:groups:users:add"

    def get(self, request: HttpRequest, group_id: uuid.UUID) -> HttpResponse:
        """Show who matches what was typed and is not in the group."""
        return self._form(request.GET, {})

    def post(self, request: HttpRequest, group_id: uuid.UUID) -> HttpResponse:
        """Put the user in."""
        data, group = request.POST, self.group
        try:
            user = selectors.user_by(user_id=data.get("who", ""))
            if user is None:
                raise InvalidInputError("Choose a user.", field="who")
            services.add_to_group(group, user)
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go(self.back(), said=f"{user.name} is in {group.name} now.")

    def _form(self, values: QueryDict, errors: dict[str, str], *, status: int = 200) -> HttpResponse:
        text = base.search_of(values)
        context = {
            "group": self.group,
            "text": text,
            "users": panels.users_to_choose(text, beside=self.group),
            "errors": errors,
        }
        return self.page("dashboard/identity/group_add.html", context, status=status)


class GroupUserRemove(GroupPage):
    """A user taken out of a group."""

    rule = "identity:groups:users:remove"

    def get(self, request: HttpRequest, group_id: uuid.UUID, user_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        user = selectors.existing_user(str(user_id))
        return self.ask_first(
            f"Take {user.name} out of {self.group.name}?",
            "The user loses the roles that come by the group, at once and in open pages too.",
            "Take out",
        )

    def post(self, request: HttpRequest, group_id: uuid.UUID, user_id: uuid.UUID) -> HttpResponse:
        """Take the user out."""
        user = selectors.existing_user(str(user_id))
        services.remove_from_group(self.group, user)
        return self.go(self.back(), said=f"{user.name} is not in {self.group.name} any more.")
