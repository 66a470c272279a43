"""Extra specs and access lists of flavors (Compute API reference, "Flavors extra-specs", "Flavors access")."""

from typing import Any

from portal.api.common.validation import Schema
from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.quotas.views import known_project
from portal.api.frame.parts import Call, Entries, parts, sent
from portal.api.frame.schemas import inner
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute.models import Flavor
from provisioning.compute.selectors import flavor_access_for, flavor_for
from provisioning.compute.services.flavor_access import add_flavor_access, remove_flavor_access
from provisioning.compute.services.flavor_specs import delete_extra_spec, merge_extra_specs
from provisioning.identity import policy

_CHECKED, _PRIVATE_ONLY = (2, 86), (2, 7)
"""From the first version on extra specs in known namespaces are validated; from the second on only private flavors have
access lists.
"""
_SPECS = "os_compute_api:os-flavor-extra-specs:"
_ACCESS = "os_compute_api:os-flavor-access"
_REVOKE = f"{_ACCESS}:remove_tenant_access"
_TENANT = inner({"tenant": {"type": "string", "minLength": 1, "maxLength": 255}}, ("tenant",))
_ACTION: Schema = inner({"addTenantAccess": _TENANT, "removeTenantAccess": _TENANT}) | {
    "minProperties": 1,
    "maxProperties": 1,
}


def _flavor(context: RequestContext, flavor_id: str) -> Flavor:
    return flavor_for(context, flavor_id, disabled=True)


def _list(context: RequestContext, flavor_id: str, *, public: bool = False) -> list[dict[str, str]]:
    """Return the projects that may use a flavor. Raises NotFoundError for a public flavor, unless ``public``."""
    flavor, projects = flavor_access_for(context, flavor_id)
    if flavor.is_public and not public:
        raise NotFoundError("Access list not available for public flavors.")
    return [{"flavor_id": flavor.flavorid, "tenant_id": project.hex} for project in projects]


def _change(
    context: RequestContext, flavor_id: str, action: dict[str, Any], *, private_only: bool
) -> list[dict[str, str]]:
    [(name, value)] = action.items()
    if name == "addTenantAccess":
        add_flavor_access(context, flavor_id, known_project(context, value["tenant"]), private_only=private_only)
    else:
        policy.enforce(context, _REVOKE)
        remove_flavor_access(context, flavor_id, read_id(value["tenant"]) or value["tenant"])
    return _list(context, flavor_id, public=True)


_EXTRA_SPECS = Entries(
    name="extra_specs",
    find=_flavor,
    values=lambda view, flavor: flavor.extra_specs,
    schema={
        "type": "object",
        "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}\Z": {"type": ["string", "number"], "maxLength": 255}},
        "additionalProperties": False,
    },
    merge=merge_extra_specs,
    remove=delete_extra_spec,
    missing="Flavor {found.flavorid} has no extra specs with key {key}.",
    more=lambda view: {"rule": view.rules[view.request.method], "known_only": view.microversion >= _CHECKED},
)
PARTS = parts(
    ComputeView,
    "",
    {
        "POST action": Call(
            _change,
            f"{_ACCESS}:add_tenant_access",
            "Grant or revoke a project's access to a flavor; returns the updated list.",
            name="flavor_access",
            body=_ACTION,
            more=lambda view: {"private_only": view.microversion >= _PRIVATE_ONLY},
        ),
    },
    action_rules={"removeTenantAccess": _REVOKE},
) | parts(
    ComputeView,
    "",
    {
        "GET os-extra_specs": _EXTRA_SPECS.all(f"{_SPECS}index", "List the extra specs of a flavor."),
        "POST os-extra_specs": _EXTRA_SPECS.merging(
            f"{_SPECS}create", "Add or update extra specs; returns the body as it was sent.", shape=sent
        ),
        "GET os-extra_specs/{key}": _EXTRA_SPECS.one(f"{_SPECS}show"),
        "PUT os-extra_specs/{key}": _EXTRA_SPECS.setting(
            f"{_SPECS}update", "Set one extra spec; the key in the body must equal that in the path."
        ),
        "DELETE os-extra_specs/{key}": _EXTRA_SPECS.removing(f"{_SPECS}delete", "Remove one extra spec.", status=200),
        "GET os-flavor-access": Call(
            _list, _ACCESS, "List the projects that may use a private flavor.", name="flavor_access"
        ),
    },
)
