"""``/v3/users``, ``/v3/groups``, the users in a group, and the projects and groups of a user."""

from collections.abc import Callable
from functools import partial
from typing import Any

from portal.api.frame import Call, Checked, Filter, Json, Operation, Values, identity, parts
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from portal.api.identity.directory import base
from portal.api.identity.directory.projects import PROJECT
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Part
from provisioning.common.values.ids import read_id
from provisioning.common.values.unset import UNSET
from provisioning.identity import policy
from provisioning.identity.directory import listing as directory
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.models import Group, Project, User
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.selectors.members import is_in
from provisioning.identity.services import groups, users


def _list_users(view: base.CollectionView, part: Part) -> RowPage[User]:
    if view.everything:
        return directory.users(part, within=view.within)
    return directory.users(part, only=view.context.user_id)


def _create_user(view: base.CollectionView, values: Values) -> User:
    domain = view.domain_to_make_in(values.pop("domain_id", view.default_domain))
    return users.create_user(domain, values.pop("name"), **_with_project(view, values))


def _update_user(view: base.RecordDetailView, user: User, values: Values) -> User:
    users.update_user(user, **_with_project(view, values))
    return user


def _with_project(view: base.DomainView, values: Values) -> Values:
    """Look up the default project. For a domain administrator, projects of other domains do not exist."""
    if "default_project_id" not in values:
        return values
    key = values.pop("default_project_id")
    found = by_id(Project, key)
    target = {"domain_id": found.domain_id if found else None}
    if key is not None and (found is None or not policy.allows(view.context, "identity:list_projects", target)):
        raise InvalidInputError(f"There is no project {key}.", field="default_project_id")
    return values | {"default_project": found}


USER = base.Resource(
    name="user",
    list=Operation(_list_users, "novella:find_user"),
    show=Operation(partial(existing, User), "identity:get_user"),
    create=Operation(_create_user, "identity:create_user"),
    update=Operation(
        _update_user,
        "identity:update_user",
        "Update the specified fields; a new password or disabling the user revokes all tokens of the user.",
    ),
    delete=Operation(
        lambda view, user: users.delete_user(user),
        "identity:delete_user",
        "Delete a user; its resources remain in the projects.",
    ),
    whole_list="identity:list_users",
    guarded=("PATCH", "DELETE"),
    attributes=(
        dialect.Attribute("id", dialect.KEY, refused=True, fixed=InvalidInputError),
        dialect.Attribute("name", dialect.LONG_NAME, post=True, put=True, required=True),
        dialect.Attribute("domain_id", dialect.KEY, post=True, fixed=InvalidInputError),
        dialect.Attribute("enabled", dialect.FLAG, post=True, put=True),
        dialect.Attribute(lists.EXPIRY, Checked({"type": ["string", "null"]}), show=lists.expiry),
        dialect.Attribute("options", base.USER_OPTIONS, post=True, put=True),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True, show=lambda row: row.description or UNSET),
        dialect.Attribute(
            "email",
            Checked({"type": ["string", "null"], "maxLength": 254}, lists.text),
            post=True,
            put=True,
            show=lambda row: row.email or UNSET,
        ),
        dialect.Attribute(
            "default_project_id",
            dialect.KEY_OR_NULL,
            post=True,
            put=True,
            show=lambda row: row.default_project_id or UNSET,
        ),
        dialect.Attribute(
            "password", Checked({"type": ["string", "null"], "maxLength": 4096}), post=True, put=True, shown=False
        ),
    ),
    lists=lists.Paged(
        filters=(
            Filter("name"),
            Filter("domain_id"),
            Filter("default_project_id", read=identity),
            lists.ENABLED,
            lists.EXPIRES,
        ),
        sort_keys=("id", "name", "enabled", "domain_id", "default_project_id", "email", lists.EXPIRY),
    ),
    extra=255,
)
_USERS = dialect.routes(USER, dialect=base.DIRECTORY)


def _create_group(view: base.CollectionView, values: Values) -> Group:
    domain = view.domain_to_make_in(values.pop("domain_id", view.default_domain))
    return groups.create_group(domain, values.pop("name"), **values)


def _update_group(view: base.RecordDetailView, group: Group, values: Values) -> Group:
    groups.update_group(group, **values)
    return group


GROUP = base.Resource(
    name="group",
    list=Operation(lambda view, part: directory.groups(part, within=view.within), "identity:list_groups"),
    show=Operation(partial(existing, Group), "identity:get_group"),
    create=Operation(_create_group, "identity:create_group"),
    update=Operation(_update_group, "identity:update_group", "Update the specified fields."),
    delete=Operation(
        lambda view, group: groups.delete_group(group),
        "identity:delete_group",
        "Delete a group; its members lose the roles of the group immediately.",
    ),
    guarded=("PUT", "DELETE"),
    attributes=(
        dialect.Attribute("id", dialect.KEY, refused=True, fixed=InvalidInputError),
        dialect.Attribute("name", dialect.NAME, post=True, put=True, required=True),
        dialect.Attribute("domain_id", dialect.KEY, post=True, fixed=InvalidInputError),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True),
    ),
    lists=lists.Paged(
        filters=(Filter("name"), Filter("domain_id")), sort_keys=("id", "name", "domain_id", "description")
    ),
    extra=255,
)
_GROUPS = dialect.routes(GROUP, dialect=base.DIRECTORY)


def _beside(
    of: base.Resource, resource: base.Resource, find: Callable[..., RowPage[Any]], rule: str, description: str
) -> Any:
    """Return the view of a list of another kind of records below a record.

    ``find`` gets the record, and the view and the requested ``part`` as keywords.
    """

    def shape(view: base.RecordView, found: RowPage[Any]) -> Json:
        path = f"{of.address(view.record)}/{resource.plural}"
        return {resource.plural: resource.shapes(view, found.rows)} | lists.ending(view.request, found, path)

    call = Call(
        find,
        rule,
        description,
        shape=shape,
        more=lambda view: {"view": view, "part": resource.lists.read(view.request)},
    )
    where = f"{of.path}/{{{of.parameter}}}/{resource.plural}"
    return parts(base.RecordView, where, {"GET": call}, resource=of, queries={"GET": resource.lists.schema})


def _within(view: base.RecordView) -> str | None:
    """Return the token's domain, to which lists about another user are limited; None for lists about the caller."""
    return None if view.record.id == view.context.user_id else view.context.domain_id


class GroupUserView(base.RecordView):
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


def _check_member(group: Group, user: User) -> None:
    """Raise NotFoundError if the user is not a member."""
    if not is_in(group, user):
        raise NotFoundError(f"User '{user.id.hex}' not found in group '{group.id.hex}'.")


_MEMBERS = dialect.patterns(
    _beside(
        USER,
        PROJECT,
        lambda user, *, view, part: directory.projects(part, within=_within(view), open_to=user.id),
        "identity:list_user_projects",
        "List the projects on which the user has a role.",
    )
    | _beside(
        USER,
        GROUP,
        lambda user, *, view, part: directory.groups_of(user, part, within=_within(view)),
        "identity:list_groups_for_user",
        "List the groups that the user is in.",
    )
    | _beside(
        GROUP,
        USER,
        lambda group, *, view, part: directory.users_in(group, part, within=view.context.domain_id),
        "identity:list_users_in_group",
        "List the users in a group.",
    )
    | parts(
        GroupUserView,
        "groups/{group_id}/users/{user_id}",
        {
            "GET": Call(_check_member, "identity:check_user_in_group", "Answer 204 if the user is a member."),
            "PUT": Call(groups.add_to_group, "identity:add_user_to_group", "Add the user to the group."),
            "DELETE": Call(
                groups.remove_from_group,
                "identity:remove_user_from_group",
                "Remove the user from the group; the user loses the roles of the group immediately.",
            ),
        },
    )
)


ROUTES = _USERS | _GROUPS | _MEMBERS
