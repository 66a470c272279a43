"""The projects and groups of a user, and the users in a group."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.frame.parts import Call, parts
from portal.api.identity.dialect import patterns
from portal.api.identity.dialect.lists import ending
from portal.api.identity.directory.base import RecordView, Resource
from portal.api.identity.directory.groups import GROUP
from portal.api.identity.directory.projects import PROJECT
from portal.api.identity.directory.users import USER
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.directory.lists import groups_of, projects, users_in
from provisioning.identity.models import Group, User
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.selectors.members import is_in
from provisioning.identity.services.groups import add_to_group, remove_from_group


class _BesideView(RecordView):
    """Base of lists of another kind of records below a record."""

    def answer_with(self, resource: Resource, found: RowPage[Any]) -> Response:
        path = f"{self.resource.address(self.record)}/{resource.plural}"
        return Response({resource.plural: resource.shapes(self, found.rows)} | ending(self.request, found, path))


class OfUserView(_BesideView):
    """Base of lists about a user."""

    resource = USER

    @property
    def within(self) -> str | None:
        """The domain that lists about another user are filtered by: the domain of the token. None for the caller's own
        lists.
        """
        return None if self.record.id == self.context.user_id else self.context.domain_id


class UserProjectsView(OfUserView):
    """``GET /v3/users/{id}/projects``."""

    rules = {"GET": "identity:list_user_projects"}
    queries: ClassVar[Schemas] = {"GET": PROJECT.lists.schema}

    def get(self, request: Request, identity: str) -> Response:
        """List the projects on which the user has a role."""
        user, part = self.record, PROJECT.lists.read(request)
        return self.answer_with(PROJECT, projects(part, within=self.within, open_to=user.id))


class UserGroupsView(OfUserView):
    """``GET /v3/users/{id}/groups``."""

    rules = {"GET": "identity:list_groups_for_user"}
    queries: ClassVar[Schemas] = {"GET": GROUP.lists.schema}

    def get(self, request: Request, identity: str) -> Response:
        """List the groups that the user is in."""
        user, part = self.record, GROUP.lists.read(request)
        return self.answer_with(GROUP, groups_of(user, part, within=self.within))


class GroupUsersView(_BesideView):
    """``GET /v3/groups/{id}/users``."""

    resource = GROUP
    rules = {"GET": "identity:list_users_in_group"}
    queries: ClassVar[Schemas] = {"GET": USER.lists.schema}

    def get(self, request: Request, identity: str) -> Response:
        """List the users in a group."""
        group, part = self.record, USER.lists.read(request)
        return self.answer_with(USER, users_in(group, part, within=self.context.domain_id))


class GroupUserView(RecordView):
    """``/v3/groups/{id}/users/{user_id}``: the group and the user are the arguments of the services."""

    resource = GROUP

    def policy_target(self) -> dict[str, object]:
        """Return the ids of the group, its domain and the user."""
        return {**super().policy_target(), "user_id": self.ids["user_id"]}

    def arguments(self, identity: str = "", **ids: str) -> tuple[Group, User]:
        return self.record, self._user(str(self.rule_of(str(self.request.method))))

    def _user(self, rule: str) -> User:
        """Return the user. Raises NotFoundError unless the caller is the user, or the rule allows the caller in the
        user's domain.
        """
        key = read_id(self.ids["user_id"])
        user = by_id(User, self.ids["user_id"])
        own = key is not None and key == self.context.user_id
        if user is None or not (own or self.allows_in(rule, user.domain_id)):
            raise NotFoundError(f"Could not find user: {self.ids['user_id'][:64]}.")
        return user


def _check(group: Group, user: User) -> None:
    """Raise NotFoundError if the user is not a member."""
    if not is_in(group, user):
        raise NotFoundError(f"User '{user.id.hex}' not found in group '{group.id.hex}'.")


_USER, _GROUP = "/users/(?P<user_id>[^/]+)", "/groups/(?P<group_id>[^/]+)"
ROUTES: dict[str, type[ServiceView]] = {
    f"{_USER}/projects": UserProjectsView,
    f"{_USER}/groups": UserGroupsView,
    f"{_GROUP}/users": GroupUsersView,
    **patterns(
        parts(
            GroupUserView,
            "groups/{group_id}/users/{user_id}",
            {
                "GET": Call(_check, "identity:check_user_in_group", "Answer 204 if the user is a member."),
                "PUT": Call(add_to_group, "identity:add_user_to_group", "Add the user to the group."),
                "DELETE": Call(
                    remove_from_group,
                    "identity:remove_user_from_group",
                    "Remove the user from the group; the user loses the roles of the group immediately.",
                ),
            },
        )
    ),
}
