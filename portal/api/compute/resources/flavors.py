"""Flavors, their extra specs and their access lists (Compute API reference, "Flavors", "Flavors extra-specs", "Flavors
access").
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_utils import strutils
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api import frame
from portal.api.common import conditional
from portal.api.compute import dialect
from portal.api.compute.quotas import known_project
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Sort
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.compute.selectors import flavor_access_for, flavor_for
from provisioning.compute.services.flavors import (
    FlavorRequest,
    add_flavor_access,
    create_flavor,
    delete_extra_spec,
    delete_flavor,
    merge_extra_specs,
    remove_flavor_access,
    update_flavor,
)
from provisioning.identity import policy

DESCRIBED = (2, 55)
"""From this version on flavors have descriptions."""
WITH_SPECS = (2, 61)
NO_SWAP_IS_TEXT, NO_SWAP_IS_0 = (2, 74), (2, 75)
SORT_KEYS = {
    "created_at": "created_at",
    "description": "description",
    "disabled": "disabled",
    "ephemeral_gb": "ephemeral_gb",
    "flavorid": "flavorid",
    "id": "id",
    "is_public": "is_public",
    "memory_mb": "memory_mb",
    "name": "name",
    "root_gb": "root_gb",
    "rxtx_factor": "rxtx_factor",
    "swap": "swap_mb",
    "updated_at": "id",
    "vcpu_weight": "id",
    "vcpus": "vcpus",
}
"""Sort key of the API → column.

Neither weights nor update times are stored; sorting by them keeps the order of creation.
"""
_SORTING = frame.Sorting(unknown_way="sort_dir must be asc or desc.", once=True, without=("flavorid",))
"""The schema has checked key and direction."""
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_ID = {
    "type": ["string", "number", "null"],
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )\Z",
}
_NAME: frame.Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^\S(.*\S)?\Z"}
_FACTOR: frame.Schema = {
    "type": ["number", "string"],
    "pattern": r"^[0-9]+(\.[0-9]+)?\Z",
    "maxLength": 64,
    "exclusiveMinimum": 0,
    "maximum": 3.40282e38,
}
_DESCRIPTION: frame.Schema = {"type": ["string", "null"], "maxLength": 65_535}
_SIZE = frame.Checked(dialect.NOT_NEGATIVE, int)
_SIZE_OR_TEXT = frame.Checked(dialect.NOT_NEGATIVE, int, lambda size: size or "")
"""A size that responses have as an empty text if it is 0."""
_AMOUNT = frame.Checked(dialect.POSITIVE, int)


class FlavorsView(dialect.ListView):
    """``GET`` and ``POST /flavors``, ``GET /flavors/detail``; a client with an ETag gets the list only if it has
    changed.
    """

    def get(self, request: Request) -> Response:
        return conditional.answer(self, self.whole)


def _list(view: dialect.ListView, query: Mapping[str, str], **page: Any) -> list[Flavor]:
    sort = _SORTING.read(view.request.query_params, SORT_KEYS) or (Sort("flavorid", descending=False),)
    operator = view.allows("novella:flavors:index:all")
    return selectors.flavors_for(
        view.context,
        is_public=_is_public(query.get("is_public")) if operator else None,
        min_ram=_number(query, "minRam"),
        min_disk=_number(query, "minDisk"),
        disabled=operator,
        sort=(*sort, Sort("id", sort[0].descending)),
        **page,
    )


def _show(view: dialect.ResourceView, flavor_id: str) -> Flavor:
    return selectors.flavor_for(view.context, flavor_id, disabled=True)


def _create(view: dialect.ResourceView, values: frame.Values) -> Flavor:
    return create_flavor(view.context, FlavorRequest(**values))


def _update(view: dialect.ResourceView, flavor_id: str, values: frame.Values) -> Flavor:
    return update_flavor(view.context, flavor_id, **values)


def _delete(view: dialect.ResourceView, flavor_id: str) -> None:
    delete_flavor(view.context, flavor_id)


def _is_public(text: str | None) -> bool | None:
    """Read the filter ``is_public`` of an operator: True (public flavors) without a value, None (all flavors) for
    ``None``.
    """
    if text is None:
        return True
    if text.strip().lower() == "none":
        return None
    try:
        return strutils.bool_from_string(text, strict=True)
    except ValueError as error:
        raise InvalidInputError(f"Invalid is_public filter [{text[:32]}]", field="is_public") from error


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"Invalid {name} filter [{text[:32]}]", field=name)
    return int(text)


_IDENTITY = frame.Attribute(
    "id",
    frame.Checked(_ID, lambda value: None if value in {None, "auto"} else str(value)),
    column="flavorid",
    post=True,
)
_NAMED = frame.Attribute("name", frame.Checked(_NAME), post=True, required=True)
_DESCRIBED = frame.Attribute(
    "description",
    frame.Checked(_DESCRIPTION, lambda text: text or "", lambda text: text or None),
    post=True,
    put=True,
    since=DESCRIBED,
)
_FLAVORS = frame.Operation(
    _list,
    "novella:flavors:index",
    "List the flavors that the project may use. Operators also see only public flavors, unless they filter by"
    " ``is_public``.",
    parameters=(
        *dialect.PAGES,
        frame.Parameter("is_public", dialect.TEXT),
        frame.Parameter("minRam", dialect.TEXT),
        frame.Parameter("minDisk", dialect.TEXT),
        frame.Parameter("sort_key", {"enum": list(SORT_KEYS)}),
        frame.Parameter("sort_dir", {"enum": ["asc", "desc"]}),
    ),
)
FLAVOR = dialect.Resource(
    name="flavor",
    list=_FLAVORS,
    detailed=_FLAVORS,
    show=frame.Operation(_show, "novella:flavors:show"),
    create=frame.Operation(_create, "os_compute_api:os-flavor-manage:create"),
    update=frame.Operation(
        _update,
        "os_compute_api:os-flavor-manage:update",
        "Update the description of a flavor; null removes it.",
        since=DESCRIBED,
        body=frame.body("flavor", {"description": _DESCRIPTION}, ("description",)),
    ),
    delete=frame.Operation(
        _delete, "os_compute_api:os-flavor-manage:delete", "Delete a flavor; servers keep their copy.", status=202
    ),
    short=(_IDENTITY, _NAMED, dialect.LINKS, _DESCRIBED),
    attributes=(
        _IDENTITY,
        _NAMED,
        frame.Attribute("ram", _AMOUNT, column="memory_mb", post=True, required=True),
        frame.Attribute("vcpus", _AMOUNT, post=True, required=True),
        frame.Attribute("disk", _SIZE, column="root_gb", post=True, required=True),
        frame.Attribute("swap", _SIZE_OR_TEXT, column="swap_mb", post=True, until=NO_SWAP_IS_TEXT),
        frame.Attribute("swap", _SIZE, column="swap_mb", post=True, since=NO_SWAP_IS_0),
        frame.Attribute("OS-FLV-EXT-DATA:ephemeral", _SIZE, column="ephemeral_gb", post=True),
        frame.Attribute("OS-FLV-DISABLED:disabled", dialect.SHOWN, column="disabled"),
        frame.Attribute(
            "os-flavor-access:is_public", frame.Checked(dialect.BOOLEAN, dialect.boolean), column="is_public", post=True
        ),
        frame.Attribute("rxtx_factor", frame.Checked(_FACTOR, float), post=True),
        dialect.LINKS,
        _DESCRIBED,
        frame.Attribute(
            "extra_specs", dialect.SHOWN, since=WITH_SPECS, rule="os_compute_api:os-flavor-extra-specs:index"
        ),
    ),
)
FLAVORS = replace(dialect.COMPUTE, lists=FlavorsView)


_CHECKED, _PRIVATE_ONLY = (2, 86), (2, 7)
"""From the first version on extra specs in known namespaces are validated; from the second on only private flavors have
access lists.
"""
_SPECS = "os_compute_api:os-flavor-extra-specs:"
_ACCESS = "os_compute_api:os-flavor-access"
_REVOKE = f"{_ACCESS}:remove_tenant_access"
_TENANT = frame.inner({"tenant": {"type": "string", "minLength": 1, "maxLength": 255}}, ("tenant",))
_ACTION: frame.Schema = frame.inner({"addTenantAccess": _TENANT, "removeTenantAccess": _TENANT}) | {
    "minProperties": 1,
    "maxProperties": 1,
}


def _flavor(context: RequestContext, flavor_id: str) -> Flavor:
    return flavor_for(context, flavor_id, disabled=True)


def _access_list(context: RequestContext, flavor_id: str, *, public: bool = False) -> list[dict[str, str]]:
    """Return the projects that may use a flavor. Raises NotFoundError for a public flavor, unless ``public``."""
    flavor, projects = flavor_access_for(context, flavor_id)
    if flavor.is_public and not public:
        raise NotFoundError("Access list not available for public flavors.")
    return [{"flavor_id": flavor.flavorid, "tenant_id": project.hex} for project in projects]


def _change(context: RequestContext, flavor_id: str, action: frame.Json, *, private_only: bool) -> list[dict[str, str]]:
    [(name, value)] = action.items()
    if name == "addTenantAccess":
        add_flavor_access(context, flavor_id, known_project(context, value["tenant"]), private_only=private_only)
    else:
        policy.enforce(context, _REVOKE)
        remove_flavor_access(context, flavor_id, read_id(value["tenant"]) or value["tenant"])
    return _access_list(context, flavor_id, public=True)


_EXTRA_SPECS = frame.Entries(
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
PARTS = frame.parts(
    dialect.ComputeView,
    "",
    {
        "POST action": frame.Call(
            _change,
            f"{_ACCESS}:add_tenant_access",
            "Grant or revoke a project's access to a flavor; returns the updated list.",
            name="flavor_access",
            body=_ACTION,
            more=lambda view: {"private_only": view.microversion >= _PRIVATE_ONLY},
        ),
    },
    action_rules={"removeTenantAccess": _REVOKE},
) | frame.parts(
    dialect.ComputeView,
    "",
    {
        "GET os-extra_specs": _EXTRA_SPECS.all(f"{_SPECS}index", "List the extra specs of a flavor."),
        "POST os-extra_specs": _EXTRA_SPECS.merging(
            f"{_SPECS}create", "Add or update extra specs; returns the body as it was sent.", shape=frame.sent
        ),
        "GET os-extra_specs/{key}": _EXTRA_SPECS.one(f"{_SPECS}show"),
        "PUT os-extra_specs/{key}": _EXTRA_SPECS.setting(
            f"{_SPECS}update", "Set one extra spec; the key in the body must equal that in the path."
        ),
        "DELETE os-extra_specs/{key}": _EXTRA_SPECS.removing(f"{_SPECS}delete", "Remove one extra spec.", status=200),
        "GET os-flavor-access": frame.Call(
            _access_list, _ACCESS, "List the projects that may use a private flavor.", name="flavor_access"
        ),
    },
)
