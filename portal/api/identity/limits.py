"""``/v3/registered_limits`` and ``/v3/limits`` (Identity API v3, "Unified Limits"): default limits of a service's
resources, and limits of single projects and domains.
"""

from dataclasses import replace

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import Schema
from portal.api.common.views import ServiceView
from portal.api.frame.parts import Call, parts
from portal.api.identity.dialect import (
    IDENTITY,
    Attribute,
    Checked,
    ListView,
    Operation,
    Paged,
    Resource,
    patterns,
    routes,
)
from portal.api.identity.dialect.resource import KEY, KEY_OR_NULL, new_body, reference
from provisioning.common.lists.listing import Part
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.directory.unified_limits import (
    MODEL,
    existing_limit,
    existing_registered_limit,
    limits_for,
    registered_limits,
)
from provisioning.identity.models import LONG, Limit
from provisioning.identity.services import unified_limits

MOST = 1000
"""Maximum number of limits that one request creates."""
_REGION = reference(LONG, null=True)
_RESOURCE = Checked({"type": "string", "minLength": 1, "maxLength": LONG, "pattern": r"\S"})
_NUMBER = Checked({"type": "integer", "minimum": -1, "maximum": 0x7FFFFFFF})
_TEXT = Checked({"type": ["string", "null"], "maxLength": LONG})


class SeveralView(ListView):
    """A list; one request creates several records."""

    def post(self, request: Request) -> Response:
        made = self.resource.create.call(self.checked_body()[self.resource.plural])
        return Response({self.resource.plural: self.shapes(made)}, status=201)


def _several(resource: Resource) -> Schema:
    """Return the schema of a list of new objects."""
    items = {"type": "array", "items": new_body(resource)["properties"][resource.name], "minItems": 1, "maxItems": MOST}
    return {
        "type": "object",
        "properties": {resource.plural: items},
        "required": [resource.plural],
        "additionalProperties": False,
    }


_SEVERAL = replace(IDENTITY, lists=SeveralView, new=_several)

REGISTERED_LIMIT = Resource(
    name="registered_limit",
    list=Operation(lambda view, part: registered_limits(part), "identity:list_registered_limits"),
    show=Operation(existing_registered_limit, "identity:get_registered_limit"),
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
        Attribute("service_id", KEY, post=True, put=True, required=True),
        Attribute("region_id", _REGION, post=True, put=True),
        Attribute("resource_name", _RESOURCE, post=True, put=True, required=True),
        Attribute("id", KEY),
        Attribute("default_limit", _NUMBER, post=True, put=True, required=True),
        Attribute("description", _TEXT, post=True, put=True),
    ),
    lists=Paged(
        texts=("region_id", "resource_name"),
        ids=("service_id",),
        by_part="resource_name",
        sort_keys=("id", "service_id", "region_id", "resource_name"),
    ),
)


def _limits(view: ServiceView, part: Part) -> RowPage[Limit]:
    return limits_for(view.context, part, everything=view.allows("novella:list_every_limit"))


def _owner(limit: Limit | None) -> dict[str, object]:
    """Return the project of the limit, and the domain of that project, or else the domain of the limit itself."""
    project = limit.project if limit else None
    return {
        "project_id": project.id if project else None,
        "domain_id": project.domain_id if project else limit.domain_id if limit else None,
    }


LIMIT = Resource(
    name="limit",
    list=Operation(
        _limits,
        "identity:list_limits",
        "List the limits that the caller may see: all limits, or the limits of the token's domain or project.",
    ),
    show=Operation(existing_limit, "identity:get_limit"),
    create=Operation(
        unified_limits.create_limits, "identity:create_limits", "Create several limits, all or none (201)."
    ),
    update=Operation(lambda view, record, values: unified_limits.update_limit(record, values), "identity:update_limit"),
    delete=Operation(lambda view, record: unified_limits.delete_limit(record), "identity:delete_limit"),
    target=_owner,
    attributes=(
        Attribute("service_id", KEY, post=True, required=True, column="registered_limit__service_id"),
        Attribute("region_id", _REGION, post=True, column="registered_limit__region_id"),
        Attribute("resource_name", _RESOURCE, post=True, required=True, column="registered_limit__resource_name"),
        Attribute("id", KEY),
        Attribute("project_id", KEY_OR_NULL, post=True),
        Attribute("domain_id", KEY_OR_NULL, post=True),
        Attribute("resource_limit", _NUMBER, post=True, put=True, required=True),
        Attribute("description", _TEXT, post=True, put=True),
    ),
    lists=Paged(
        texts=("region_id", "resource_name", "domain_id"),
        ids=("service_id", "project_id"),
        by_part="resource_name",
        sort_keys=("id", "service_id", "region_id", "resource_name", "project_id", "domain_id"),
    ),
)


_MODEL = Call(lambda context: MODEL, "identity:get_limit_model", name="model")
ROUTES: dict[str, type[ServiceView]] = {
    **patterns(parts(ServiceView, "limits/model", {"GET": _MODEL})),
    **routes(REGISTERED_LIMIT, dialect=_SEVERAL),
    **routes(LIMIT, dialect=_SEVERAL),
}
