"""``/v3/users``, and the projects and groups of a user."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.identity import fields
from portal.api.identity.base import CollectionView, DomainView, RecordView
from portal.api.identity.directory import lists, schemas, shapes
from provisioning.common.errors import InvalidInputError
from provisioning.identity import policy
from provisioning.identity.directory.lists import groups_of, projects, users
from provisioning.identity.models import Project, User
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.services.users import UserChanges, UserFields, create_user, delete_user, update_user

COLUMNS = frozenset(
    {"id", "name", "domain_id", "description", "enabled", "email", "password", "default_project_id", "options"}
)


class UsersView(CollectionView):
    """``/v3/users``."""

    rules = {"GET": "novella:find_user", "POST": "identity:create_user"}
    schemas: ClassVar[Schemas] = {"POST": schemas.USER_CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.USERS)}
    listing_rule = "identity:list_users"
    what = "user"

    def get(self, request: Request) -> Response:
        everybody = self.sees_all(request)
        found = users(
            lists.read(request, lists.USERS),
            within=self.within if everybody else None,
            only=None if everybody else self.context.user_id,
        )
        self.refuse_others(request, found)
        return Response(lists.answer(request, "users", found, shapes.user, "/users"))

    def post(self, request: Request) -> Response:
        body = self.checked_body()["user"]
        fields.refuse(body, "id")
        domain = self.domain_to_make_in(body.get("domain_id", self.default_domain))
        given: UserFields = {}
        _read(self, body, given)
        made = create_user(domain, body["name"], **given)
        return Response({"user": shapes.user(request, made)}, status=201)


class UserView(RecordView[User]):
    """A user by the id, and its domain."""

    what = "user"
    model = User

    @property
    def within(self) -> str | None:
        """The domain that lists about another user are filtered by: the domain of the token. None for the caller's own
        lists.
        """
        return None if self.record.id == self.context.user_id else self.context.domain_id


class OneUserView(UserView):
    """``/v3/users/{id}``."""

    rules = {"GET": "identity:get_user", "PATCH": "identity:update_user", "DELETE": "identity:delete_user"}
    schemas: ClassVar[Schemas] = {"PATCH": schemas.USER_UPDATE}

    def get(self, request: Request, user_id: str) -> Response:
        return Response({"user": shapes.user(request, self.record)})

    def patch(self, request: Request, user_id: str) -> Response:
        """Update the specified fields; a new password or disabling the user revokes all tokens of the user."""
        user = self.record
        self.refuse_operators(user)
        body = self.checked_body()["user"]
        fields.refuse_change(body, {"id": user.id.hex, "domain_id": user.domain_id})
        changes: UserChanges = {}
        _read(self, body, changes)
        if "name" in body:
            changes["name"] = body["name"]
        update_user(user, **changes)
        return Response({"user": shapes.user(request, user)})

    def delete(self, request: Request, user_id: str) -> Response:
        """Delete a user; its resources remain in the projects."""
        user = self.record
        self.refuse_operators(user)
        delete_user(user)
        return Response(status=204)


class UserProjectsView(UserView):
    """``GET /v3/users/{id}/projects``."""

    rules = {"GET": "identity:list_user_projects"}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.PROJECTS)}

    def get(self, request: Request, user_id: str) -> Response:
        """List the projects on which the user has a role."""
        user = self.record
        found = projects(lists.read(request, lists.PROJECTS), within=self.within, open_to=user.id)
        path = f"/users/{user.id.hex}/projects"
        return Response(lists.answer(request, "projects", found, shapes.project, path))


class UserGroupsView(UserView):
    """``GET /v3/users/{id}/groups``."""

    rules = {"GET": "identity:list_groups_for_user"}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.GROUPS)}

    def get(self, request: Request, user_id: str) -> Response:
        """List the groups that the user is in."""
        user = self.record
        found = groups_of(user, lists.read(request, lists.GROUPS), within=self.within)
        return Response(lists.answer(request, "groups", found, shapes.group, f"/users/{user.id.hex}/groups"))


def _read(view: DomainView, body: dict[str, Any], found: UserFields) -> None:
    """Copy the specified fields into ``found``."""
    if "description" in body:
        found["description"] = fields.text(body["description"])
    if "email" in body:
        found["email"] = fields.text(body["email"])
    if "enabled" in body:
        found["enabled"] = body["enabled"]
    if "password" in body:
        found["password"] = body["password"]
    if "options" in body:
        found["options"] = body["options"]
    if "default_project_id" in body:
        found["default_project"] = _default_project(view, body["default_project_id"])
    if more := fields.further(body, COLUMNS):
        found["extra"] = more


def _default_project(view: DomainView, project_id: str | None) -> Project | None:
    """Return the project. For a domain administrator, projects of other domains do not exist."""
    if project_id is None:
        return None
    found = by_id(Project, project_id)
    target = {"domain_id": found.domain_id if found else None}
    if found is None or not policy.allows(view.context, "identity:list_projects", target):
        raise InvalidInputError(f"There is no project {project_id}.", field="default_project_id")
    return found
