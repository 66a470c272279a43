"""``/v3/registered_limits`` and ``/v3/limits`` (Identity API v3, "Unified Limits"): default limits of a service's
resources, and limits of single projects and domains.
"""

from dataclasses import replace

from rest_framework.request import Request

from portal.api.frame import Call, Checked, Filter, Json, Operation, Schema, ServiceView, identity, parts
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from provisioning.common.lists.listing import Part
from provisioning.identity.directory import unified_limits as directory
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.models import LONG, Limit
from provisioning.identity.services import unified_limits

MOST = 1000
"""Maximum number of limits that one request creates."""
_REGION = dialect.reference(LONG, null=True)
_RESOURCE = Checked({"type": "string", "minLength": 1, "maxLength": LONG, "pattern": r"\S"})
_NUMBER = Checked({"type": "integer", "minimum": -1, "maximum": 0x7FFFFFFF})
_TEXT = Checked({"type": ["string", "null"], "maxLength": LONG})


class SeveralView(dialect.ListView):
    """A list; one request creates several records."""

    def post(self, request: Request) -> Json:
        made = self.resource.create.call(self.checked_body()[self.resource.plural])
        return {self.resource.plural: self.shapes(made)}


def _several(resource: dialect.Resource) -> Schema:
    """Return the schema of a list of new objects."""
    items = {
        "type": "array",
        "items": dialect.new_body(resource)["properties"][resource.name],
        "minItems": 1,
        "maxItems": MOST,
    }
    return {
        "type": "object",
        "properties": {resource.plural: items},
        "required": [resource.plural],
        "additionalProperties": False,
    }


_SEVERAL = replace(dialect.IDENTITY, lists=SeveralView, new=_several)

REGISTERED_LIMIT = dialect.Resource(
    name="registered_limit",
    list=Operation(lambda view, part: directory.registered_limits(part), "identity:list_registered_limits"),
    show=Operation(directory.existing_registered_limit, "identity:get_registered_limit"),
    create=Operation(
        unified_limits.create_registered_limits,
        "identity:create_registered_limits",
        "Create several registered limits, all or none (201).",
    ),
    update=Operation(
        lambda view, record, values: unified_limits.update_registered_limit(record, values),
        "identity:update_registered_limit",
        "Update a registered limit; 403 while a limit refers to it.",
    ),
    delete=Operation(
        lambda view, record: unified_limits.delete_registered_limit(record),
        "identity:delete_registered_limit",
        "Delete a registered limit; 403 while a limit refers to it.",
    ),
    attributes=(
        dialect.Attribute("service_id", dialect.KEY, post=True, put=True, required=True),
        dialect.Attribute("region_id", _REGION, post=True, put=True),
        dialect.Attribute("resource_name", _RESOURCE, post=True, put=True, required=True),
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("default_limit", _NUMBER, post=True, put=True, required=True),
        dialect.Attribute("description", _TEXT, post=True, put=True),
    ),
    lists=lists.Paged(
        filters=(Filter("region_id"), Filter("resource_name"), Filter("service_id", read=identity)),
        by_part="resource_name",
        sort_keys=("id", "service_id", "region_id", "resource_name"),
    ),
)


def _limits(view: ServiceView, part: Part) -> RowPage[Limit]:
    return directory.limits_for(view.context, part, everything=view.allows("novella:list_every_limit"))


def _owner(limit: Limit | None) -> dict[str, object]:
    """Return the project of the limit, and the domain of that project, or else the domain of the limit itself."""
    project = limit.project if limit else None
    return {
        "project_id": project.id if project else None,
        "domain_id": project.domain_id if project else limit.domain_id if limit else None,
    }


LIMIT = dialect.Resource(
    name="limit",
    list=Operation(
        _limits,
        "identity:list_limits",
        "List the limits that the caller may see: all limits, or the limits of the token's domain or project.",
    ),
    show=Operation(directory.existing_limit, "identity:get_limit"),
    create=Operation(
        unified_limits.create_limits, "identity:create_limits", "Create several limits, all or none (201)."
    ),
    update=Operation(lambda view, record, values: unified_limits.update_limit(record, values), "identity:update_limit"),
    delete=Operation(lambda view, record: unified_limits.delete_limit(record), "identity:delete_limit"),
    target=_owner,
    attributes=(
        dialect.Attribute("service_id", dialect.KEY, post=True, required=True, column="registered_limit__service_id"),
        dialect.Attribute("region_id", _REGION, post=True, column="registered_limit__region_id"),
        dialect.Attribute(
            "resource_name", _RESOURCE, post=True, required=True, column="registered_limit__resource_name"
        ),
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("project_id", dialect.KEY_OR_NULL, post=True),
        dialect.Attribute("domain_id", dialect.KEY_OR_NULL, post=True),
        dialect.Attribute("resource_limit", _NUMBER, post=True, put=True, required=True),
        dialect.Attribute("description", _TEXT, post=True, put=True),
    ),
    lists=lists.Paged(
        filters=(
            *map(Filter, ("region_id", "resource_name", "domain_id")),
            *(Filter(name, read=identity) for name in ("service_id", "project_id")),
        ),
        by_part="resource_name",
        sort_keys=("id", "service_id", "region_id", "resource_name", "project_id", "domain_id"),
    ),
)


_MODEL = Call(lambda context: directory.MODEL, "identity:get_limit_model", name="model")
ROUTES: dict[str, type[ServiceView]] = {
    **dialect.patterns(parts(ServiceView, "limits/model", {"GET": _MODEL})),
    **dialect.routes(REGISTERED_LIMIT, dialect=_SEVERAL),
    **dialect.routes(LIMIT, dialect=_SEVERAL),
}
