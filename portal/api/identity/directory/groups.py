"""``/v3/groups``, and their members."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.identity import fields
from portal.api.identity.base import CollectionView, RecordView
from portal.api.identity.directory import lists, schemas, shapes
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.directory.lists import groups, users_in
from provisioning.identity.models import Group, User
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.selectors.members import is_in
from provisioning.identity.services.groups import (
    add_to_group,
    create_group,
    delete_group,
    remove_from_group,
    update_group,
)

COLUMNS = frozenset({"id", "name", "domain_id", "description"})


class GroupsView(CollectionView):
    """``/v3/groups``."""

    rules = {"GET": "identity:list_groups", "POST": "identity:create_group"}
    schemas: ClassVar[Schemas] = {"POST": schemas.GROUP_CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.GROUPS)}
    listing_rule = "identity:list_groups"
    what = "group"

    def get(self, request: Request) -> Response:
        found = groups(lists.read(request, lists.GROUPS), within=self.within)
        return Response(lists.answer(request, "groups", found, shapes.group, "/groups"))

    def post(self, request: Request) -> Response:
        body = self.checked_body()["group"]
        fields.refuse(body, "id")
        domain = self.domain_to_make_in(body.get("domain_id", self.default_domain))
        made = create_group(
            domain,
            body["name"],
            description=fields.text(body.get("description")),
            extra=fields.further(body, COLUMNS),
        )
        return Response({"group": shapes.group(request, made)}, status=201)


class GroupView(RecordView[Group]):
    """A group by its id, and its domain."""

    what = "group"
    model = Group


class OneGroupView(GroupView):
    """``/v3/groups/{id}``."""

    rules = {"GET": "identity:get_group", "PATCH": "identity:update_group", "DELETE": "identity:delete_group"}
    schemas: ClassVar[Schemas] = {"PATCH": schemas.GROUP_UPDATE}

    def get(self, request: Request, group_id: str) -> Response:
        return Response({"group": shapes.group(request, self.record)})

    def patch(self, request: Request, group_id: str) -> Response:
        """Update the specified fields."""
        group = self.record
        body = self.checked_body()["group"]
        fields.refuse_change(body, {"id": group.id.hex, "domain_id": group.domain_id})
        update_group(group, **fields.changes(body, COLUMNS, "name"))
        return Response({"group": shapes.group(request, group)})

    def delete(self, request: Request, group_id: str) -> Response:
        """Delete a group; its members lose the roles of the group immediately."""
        group = self.record
        self.refuse_operators(group)
        delete_group(group)
        return Response(status=204)


class GroupUsersView(GroupView):
    """``GET /v3/groups/{id}/users``."""

    rules = {"GET": "identity:list_users_in_group"}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.USERS)}

    def get(self, request: Request, group_id: str) -> Response:
        """List the users in a group."""
        group = self.record
        found = users_in(group, lists.read(request, lists.USERS), within=self.context.domain_id)
        return Response(lists.answer(request, "users", found, shapes.user, f"/groups/{group.id.hex}/users"))


class GroupUserView(GroupView):
    """``/v3/groups/{id}/users/{user_id}``."""

    rules = {
        "GET": "identity:check_user_in_group",
        "PUT": "identity:add_user_to_group",
        "DELETE": "identity:remove_user_from_group",
    }

    def policy_target(self) -> dict[str, object]:
        """Return the ids of the group, its domain and the user."""
        return {**super().policy_target(), "user_id": self.kwargs["user_id"]}

    def get(self, request: Request, group_id: str, user_id: str) -> Response:
        """Answer 204 if the user is a member."""
        group, user = self.record, self._user("GET")
        if not is_in(group, user):
            raise NotFoundError(f"User '{user.id.hex}' not found in group '{group.id.hex}'.")
        return Response(status=204)

    def put(self, request: Request, group_id: str, user_id: str) -> Response:
        """Add the user to the group."""
        group, user = self.record, self._user("PUT")
        self.refuse_operators(group)
        add_to_group(group, user)
        return Response(status=204)

    def delete(self, request: Request, group_id: str, user_id: str) -> Response:
        """Remove the user from the group; the user loses the roles of the group immediately."""
        group, user = self.record, self._user("DELETE")
        self.refuse_operators(group)
        remove_from_group(group, user)
        return Response(status=204)

    def _user(self, method: str) -> User:
        """Return the user. Raises NotFoundError unless the caller is the user, or the rule allows the caller in the
        user's domain.
        """
        key = read_id(self.kwargs["user_id"])
        user = by_id(User, self.kwargs["user_id"])
        own = key is not None and key == self.context.user_id
        if user is None or not (own or self.allows_in(self.rules[method], user.domain_id)):
            raise NotFoundError(f"Could not find user: {self.kwargs['user_id'][:64]}.")
        return user
