"""``/v3/domains``."""

from dataclasses import replace
from functools import partial

from portal.api.frame import Checked, Filter, Operation, Values
from portal.api.identity.dialect import FLAG, IMMUTABLE, KEY, NAME, TEXT, Attribute, lists, routes
from portal.api.identity.directory.base import DIRECTORY, TAGS, CollectionView, RecordDetailView, Resource
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part
from provisioning.identity.directory.listing import RowPage, domains
from provisioning.identity.models import Domain
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.domains import create_domain, delete_domain, update_domain


def _list(view: CollectionView, part: Part) -> RowPage[Domain]:
    return domains(part, within=view.within if view.everything else view.context.user_domain_id)


def _create(view: CollectionView, values: Values) -> Domain:
    return create_domain(values.pop("name"), **values)


def _update(view: RecordDetailView, domain: Domain, values: Values) -> Domain:
    update_domain(domain, **values)
    return domain


DOMAIN = Resource(
    name="domain",
    list=Operation(_list, "novella:find_domain"),
    show=Operation(partial(existing, Domain), "identity:get_domain"),
    create=Operation(_create, "identity:create_domain"),
    update=Operation(_update, "identity:update_domain", "Update the specified fields."),
    delete=Operation(
        lambda view, domain: delete_domain(domain),
        "identity:delete_domain",
        "Delete a disabled domain with all its contents.",
    ),
    whole_list="identity:list_domains",
    attributes=(
        Attribute("tags", TAGS, post=True, put=True, additional=True, show=lambda row: row.extra.get("tags", [])),
        Attribute(
            "options", IMMUTABLE, post=True, put=True, additional=True, show=lambda row: row.extra.get("options", {})
        ),
        Attribute("id", KEY, refused=True, fixed=InvalidInputError),
        Attribute("name", NAME, post=True, put=True, required=True),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("enabled", FLAG, post=True, put=True),
        Attribute(
            "explicit_domain_id",
            Checked({"type": "string", "pattern": r"^[0-9a-f]{32}\Z"}),
            post=True,
            refused=True,
            column="domain_id",
            shown=False,
        ),
    ),
    lists=lists.Paged(filters=(Filter("name"), lists.ENABLED), sort_keys=("id", "name", "enabled")),
    extra=255,
)


class DomainDetailView(RecordDetailView):
    """``/v3/domains/{id}``."""

    def policy_target(self) -> dict[str, object]:
        return {"domain_id": self.ids["domain_id"]}


ROUTES = routes(DOMAIN, dialect=replace(DIRECTORY, details=DomainDetailView))
