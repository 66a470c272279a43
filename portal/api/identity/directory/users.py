"""``/v3/users``."""

from functools import partial

from portal.api.identity.dialect import Attribute, Checked, Operation, Paged, Values, routes
from portal.api.identity.dialect.bodies import expiry, text
from portal.api.identity.dialect.lists import EXPIRY
from portal.api.identity.dialect.resource import FLAG, KEY, KEY_OR_NULL, LONG_NAME, TEXT
from portal.api.identity.directory.base import (
    DIRECTORY,
    USER_OPTIONS,
    CollectionView,
    DomainView,
    RecordDetailView,
    Resource,
)
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part
from provisioning.common.values.unset import UNSET
from provisioning.identity import policy
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.directory.lists import users
from provisioning.identity.models import Project, User
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.services.users import create_user, delete_user, update_user


def _list(view: CollectionView, part: Part) -> RowPage[User]:
    if view.everything:
        return users(part, within=view.within)
    return users(part, only=view.context.user_id)


def _create(view: CollectionView, values: Values) -> User:
    domain = view.domain_to_make_in(values.pop("domain_id", view.default_domain))
    return create_user(domain, values.pop("name"), **_with_project(view, values))


def _update(view: RecordDetailView, user: User, values: Values) -> User:
    update_user(user, **_with_project(view, values))
    return user


def _with_project(view: DomainView, values: Values) -> Values:
    """Look up the default project. For a domain administrator, projects of other domains do not exist."""
    if "default_project_id" not in values:
        return values
    key = values.pop("default_project_id")
    found = by_id(Project, key)
    target = {"domain_id": found.domain_id if found else None}
    if key is not None and (found is None or not policy.allows(view.context, "identity:list_projects", target)):
        raise InvalidInputError(f"There is no project {key}.", field="default_project_id")
    return values | {"default_project": found}


USER = Resource(
    name="user",
    list=Operation(_list, "novella:find_user"),
    show=Operation(partial(existing, User), "identity:get_user"),
    create=Operation(_create, "identity:create_user"),
    update=Operation(
        _update,
        "identity:update_user",
        "Update the specified fields; a new password or disabling the user revokes all tokens of the user.",
    ),
    delete=Operation(
        lambda view, user: delete_user(user),
        "identity:delete_user",
        "Delete a user; its resources remain in the projects.",
    ),
    whole_list="identity:list_users",
    guarded=("PATCH", "DELETE"),
    attributes=(
        Attribute("id", KEY, refused=True, fixed=InvalidInputError),
        Attribute("name", LONG_NAME, post=True, put=True, required=True),
        Attribute("domain_id", KEY, post=True, fixed=InvalidInputError),
        Attribute("enabled", FLAG, post=True, put=True),
        Attribute(EXPIRY, Checked({"type": ["string", "null"]}), show=expiry),
        Attribute("options", USER_OPTIONS, post=True, put=True),
        Attribute("description", TEXT, post=True, put=True, show=lambda row: row.description or UNSET),
        Attribute(
            "email",
            Checked({"type": ["string", "null"], "maxLength": 254}, text),
            post=True,
            put=True,
            show=lambda row: row.email or UNSET,
        ),
        Attribute(
            "default_project_id", KEY_OR_NULL, post=True, put=True, show=lambda row: row.default_project_id or UNSET
        ),
        Attribute(
            "password", Checked({"type": ["string", "null"], "maxLength": 4096}), post=True, put=True, shown=False
        ),
    ),
    lists=Paged(
        texts=("name", "domain_id"),
        ids=("default_project_id",),
        booleans=("enabled",),
        expiry=True,
        sort_keys=("id", "name", "enabled", "domain_id", "default_project_id", "email", EXPIRY),
    ),
    extra=255,
)
ROUTES = routes(USER, dialect=DIRECTORY)
