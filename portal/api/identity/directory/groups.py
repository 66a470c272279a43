"""``/v3/groups``."""

from functools import partial

from portal.api.identity.dialect import Attribute, Operation, Paged, Values, routes
from portal.api.identity.dialect.resource import KEY, NAME, TEXT
from portal.api.identity.directory.base import DIRECTORY, CollectionView, RecordDetailView, Resource
from provisioning.common.errors import InvalidInputError
from provisioning.identity.directory.lists import groups
from provisioning.identity.models import Group
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.groups import create_group, delete_group, update_group


def _create(view: CollectionView, values: Values) -> Group:
    domain = view.domain_to_make_in(values.pop("domain_id", view.default_domain))
    return create_group(domain, values.pop("name"), **values)


def _update(view: RecordDetailView, group: Group, values: Values) -> Group:
    update_group(group, **values)
    return group


GROUP = Resource(
    name="group",
    list=Operation(lambda view, part: groups(part, within=view.within), "identity:list_groups"),
    show=Operation(partial(existing, Group), "identity:get_group"),
    create=Operation(_create, "identity:create_group"),
    update=Operation(_update, "identity:update_group", "Update the specified fields."),
    delete=Operation(
        lambda view, group: delete_group(group),
        "identity:delete_group",
        "Delete a group; its members lose the roles of the group immediately.",
    ),
    guarded=("PUT", "DELETE"),
    attributes=(
        Attribute("id", KEY, refused=True, fixed=InvalidInputError),
        Attribute("name", NAME, post=True, put=True, required=True),
        Attribute("domain_id", KEY, post=True, fixed=InvalidInputError),
        Attribute("description", TEXT, post=True, put=True),
    ),
    lists=Paged(texts=("name", "domain_id"), sort_keys=("id", "name", "domain_id", "description")),
    extra=255,
)
ROUTES = routes(GROUP, dialect=DIRECTORY)
