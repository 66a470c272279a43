"""One operation of the document, from the declarations of its view; statuses of successful responses that differ from
the default of the method, and of operations that are only refused; faults, headers and authentication by token, which
all operations share.

tests/security/routes.txt has the actual responses of every route; tests/openapi compares them.
"""

import functools
import inspect
import re
from http import HTTPStatus
from typing import Any

from drf_spectacular.openapi import AutoSchema

from portal.api.common.faults import COMPUTE_NAMES
from portal.api.frame import SERVICES, Schema, ServiceView, Version, schema_for, text_of
from portal.api.volume.dialect import MICROVERSIONS as VOLUME_MICROVERSIONS
from provisioning.identity import policy

USUAL = {"GET": 200, "POST": 201, "PUT": 200, "PATCH": 200, "DELETE": 204}
_SERVER = r"/compute/v2\.1/servers/\{server_id\}"
_IMAGE = r"/image/v2/images/\{image_id\}"
OTHER: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"GET /(identity|image|image/v2)", (300,)),
    (r"POST /identity/v2\.0/tokens|POST /identity/v3/(ec2|s3)tokens", (200,)),
    (r"(GET|PUT) .*/(users|groups)/\{\w+\}/roles/\{role_id\}(/inherited_to_projects)?", (204,)),
    (r"(GET|PUT) /identity/v3/groups/\{group_id\}/users/\{user_id\}", (204,)),
    (r"PUT /identity/v3/roles/\{prior_role_id\}/implies/.*", (201,)),
    (r"(GET|PUT) /identity/v3/OS-EP-FILTER/projects/\{project_id\}/endpoints/\{endpoint_id\}", (204,)),
    (r"PUT /identity/v3/OS-EP-FILTER/endpoint_groups/\{endpoint_group_id\}/projects/\{project_id\}", (204,)),
    (r"PUT /identity/v3/regions/\{region_id\}", (201,)),
    (r"GET /identity/v3/projects/\{project_id\}/tags/\{tag\}", (204,)),
    (r"PUT /identity/v3/projects/\{project_id\}/tags/\{tag\}", (201,)),
    (r"GET /network/.*/tags/\{tag\}", (204,)),
    (r"PUT /network/.*/tags/\{tag\}", (201,)),
    (r"POST /identity/v3/users/\{user_id\}/password", (204,)),
    (rf"POST {_SERVER}/action", (202, 200)),
    (rf"POST {_SERVER}/(metadata|remote-consoles|os-interface)", (200,)),
    (rf"DELETE {_SERVER}/os-interface/.*", (202,)),
    (r"POST /compute/v2\.1/os-server-external-events", (200, 207)),
    (r"POST /image/v2/catalogue/\{entry_id\}/add", (202,)),
    (r"POST /(compute/v2\.1|volume/v3)/novella-would-fit", (200,)),
    (rf"(GET|PUT) {_SERVER}/tags/\{{tag\}}", (204, 201)),
    (r"POST /compute/v2\.1/(servers|os-volumes_boot)", (202,)),
    (r"POST /compute/v2\.1/os-volumes_boot/\{server_id\}/action", (202, 200)),
    (r"(POST|DELETE) /compute/v2\.1/os-keypairs.*", (200, 201, 202, 204)),
    (r"POST /compute/v2\.1/(flavors|os-aggregates|os-server-groups)(/.*)?", (200,)),
    (r"DELETE /compute/v2\.1/(flavors|os-quota-sets)/\{\w+\}", (202,)),
    (r"(POST|PUT|DELETE) /compute/v2\.1/os-baremetal-nodes(/.*)?", (501,)),
    (r"GET /compute/v2\.1/os-(baremetal-nodes.*|hosts/\{host_name\}/\w+)", (501,)),
    (r"GET /volume", (300,)),
    (r"PUT /volume/v3/groups/\{\w+\}|POST /volume/v3/(groups|group_snapshots)(/.*)?", (202,)),
    (r"POST /volume/v3/volumes/\{\w+\}/action", (202, 200)),
    (r"POST /volume/v3/attachments/\{\w+\}/action", (204,)),
    (r"POST /volume/v3/((volumes|snapshots)/\{\w+\}/metadata|attachments)", (200,)),
    (r"POST /volume/v3/(volumes|snapshots|os-volume-transfer|volume-transfers)(/.*)?", (202,)),
    (r"DELETE /volume/v3/((volumes|snapshots)/\{\w+\}/metadata/.*|attachments/.*)", (200,)),
    (r"DELETE /volume/v3/(volumes|snapshots|os-volume-transfer|volume-transfers|group_snapshots)/.*", (202,)),
    (r"DELETE /volume/v3/backups/.*|POST /volume/v3/backups/\{\w+\}/action", (202,)),
    (r"POST /volume/v3/workers/cleanup", (501,)),
    (r"POST /volume/v3/(types/\{\w+\}/action|group_types(/.*)?)", (202,)),
    (rf"POST {_IMAGE}/members", (200,)),
    (rf"POST {_IMAGE}/import", (202,)),
    (rf"GET {_IMAGE}/file", (200, 204, 206)),
    (rf"PUT {_IMAGE}/(file|stage|tags/\{{tag\}})|POST {_IMAGE}/actions/\w+", (204,)),
)
"""Method and path, as a pattern → statuses; the first match applies."""


@functools.cache
def statuses_of(method: str, path: str, rule: str = "", declared: int = 0) -> tuple[int, ...]:
    """Return the statuses of successful responses, or 410 or 501 alone for an operation that is always refused.

    ``declared``: the status in the declaration of the operation, if it has one.
    """
    if rule == "novella:removed_apis":
        return (410,)
    operation = f"{method} {path}"
    return next((found for pattern, found in OTHER if re.fullmatch(pattern, operation)), (declared or USUAL[method],))


FREE_OBJECT: Schema = {"type": "object"}
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
FAULTS = (400, 401, 403, 404, 406, 409, 410, 412, 413, 415, 429, 501, 503)
"""Error statuses that the document lists; a service's ``default`` has the same format."""

_FILE, _STAGE = "/image/v2/images/{image_id}/file", "/image/v2/images/{image_id}/stage"
DATA = frozenset({("PUT", _FILE), ("PUT", _STAGE)})
"""Operations whose body is image data."""
_SUBJECT = ("X-Subject-Token",)
HEADERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("GET", "/identity/v3/auth/tokens"): _SUBJECT,
    ("DELETE", "/identity/v3/auth/tokens"): _SUBJECT,
    ("GET", _FILE): ("Range",),
    ("PUT", _FILE): ("X-Openstack-Image-Size", "X-Image-Meta-Store"),
    ("PUT", _STAGE): ("X-Openstack-Image-Size",),
}
"""Method and path → headers of the operation in addition to the token."""
_WORDS = {
    "X-Subject-Token": "The token that the request is about.",
    "Range": "The requested bytes, `bytes=0-1023`.",
    "X-Openstack-Image-Size": "The size of the image in bytes.",
    "X-Image-Meta-Store": "The store of the image's data.",
}

_RETRY_AFTER = {
    "description": "The number of seconds to wait before the next request.",
    "required": True,
    "schema": _NUMBER,
}


def ref(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


_KEYSTONE = _object(error=_object(code=_NUMBER, title=_TEXT, message=_TEXT))
_NAMED: Schema = {
    "type": "object",
    "propertyNames": {"enum": sorted({*COMPUTE_NAMES.values(), "computeFault"})},
    "additionalProperties": _object(code=_NUMBER, message=_TEXT),
    "minProperties": 1,
    "maxProperties": 1,
}
SHAPES: dict[str, Schema] = {
    "identity": _KEYSTONE,
    "compute": _NAMED,
    "volume": _NAMED,
    "image": _object(code=_NUMBER, title=_TEXT, message=_TEXT),
    "network": _object(NeutronError=_object(type=_TEXT, message=_TEXT, detail=_TEXT)),
}
"""Service → schema of its faults; 401 has Keystone's format everywhere."""


def components(version: Version) -> dict[str, Schema]:
    """Return the components of the document for a microversion, which is the default of the header."""
    headers = {
        name: {"name": name, "in": "header", "description": words, "schema": _TEXT, "required": name in _SUBJECT}
        for name, words in _WORDS.items()
    }
    headers["OpenStack-API-Version"] = {
        "name": "OpenStack-API-Version",
        "in": "header",
        "description": "The microversion: `compute 2.96`, `compute latest`; without it 2.1.",
        "schema": {"type": "string", "default": f"compute {text_of(version)}"},
    }
    newest = text_of(VOLUME_MICROVERSIONS.maximum)
    headers["OpenStack-API-Version-volume"] = {
        "name": "OpenStack-API-Version",
        "in": "header",
        "description": f"The microversion: `volume {newest}`, `volume latest`; without it 3.0.",
        "schema": {"type": "string", "default": f"volume {newest}"},
    }
    responses = {
        f"{service}-{status}": _fault(service, status) for service in SERVICES for status in (*FAULTS, "default")
    }
    schemas = {f"{service}-fault": shape for service, shape in SHAPES.items()}
    token = {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "A token of the Identity API."}
    return {"schemas": schemas, "parameters": headers, "responses": responses, "securitySchemes": {"token": token}}


def _fault(service: str, status: int | str) -> Schema:
    words = "Any other refusal." if isinstance(status, str) else f"{HTTPStatus(status).phrase}."
    shape = "identity" if status == 401 else service
    fault: Schema = {
        "description": words,
        "content": {"application/json": {"schema": ref("schemas", f"{shape}-fault")}},
    }
    return fault | {"headers": {"Retry-After": _RETRY_AFTER}} if status == 429 else fault


_OTHERS = {r"\Z": "$", r"\A": "^"}


def portable(schema: Any) -> Any:
    """Return a copy with portable patterns, and lists instead of tuples."""
    if isinstance(schema, dict):
        return {name: _keyword(name, value) for name, value in schema.items()}
    return [portable(item) for item in schema] if isinstance(schema, list | tuple) else schema


def _keyword(name: str, value: Any) -> Any:
    if name == "pattern" and isinstance(value, str):
        return _pattern(value)
    if name == "patternProperties" and isinstance(value, dict):
        return {_pattern(pattern): portable(schema) for pattern, schema in value.items()}
    return portable(value)


def _pattern(text: str) -> str:
    for ours, theirs in _OTHERS.items():
        text = text.replace(ours, theirs)
    return text


WITHOUT_BODY = ("/tags/{tag}", "/actions/deactivate", "/actions/reactivate")
"""Suffixes of paths whose operations have no body, although the method allows one."""


class OperationSchema(AutoSchema):
    """Reads a ``ServiceView``; the generator sets the view's ``microversion`` first."""

    view: ServiceView  # type: ignore[override]  # no other view has an address of an API
    path: str
    method: str

    @property
    def version(self) -> Version:
        """The microversion of the document."""
        return self.view.microversion

    @property
    def statuses(self) -> tuple[int, ...]:
        return statuses_of(
            self.method, self.path, self.view.rules.get(self.method, ""), self.view.successes.get(self.method, 0)
        )

    @property
    def refused(self) -> bool:
        return self.statuses[0] > 400

    def get_operation_id(self) -> str:
        """Return method and path as one word, ``post_compute_v2.1_servers``."""
        return self.method.lower() + re.sub(r"[^A-Za-z0-9.]+", "_", self.path).rstrip("_")

    def get_summary(self) -> str | None:
        """Return the first sentence of the description."""
        sentence = self._sentence()
        return re.split(r"(?<=[.;:])\s", sentence, maxsplit=1)[0].rstrip(".;:") or None

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's signature, not DRF's
        """Return the description with the policy rule and the microversions."""
        parts = [self._sentence()]
        rule = self.view.rules.get(self.method)
        if rule and not self.view.public and self.method not in self.view.public_methods:
            parts.append(f"Policy rule: `{rule}`.")
        if self.view.microversions is not None:
            first, last = span(self.view, self.method)
            first, last = max(first, self.view.microversions.minimum), min(last, self.view.microversions.maximum)
            parts.append(f"Microversions {text_of(first)} to {text_of(last)}.")
        return "\n\n".join(parts)

    def _sentence(self) -> str:
        """Return the view's sentence, else the handler's docstring, else the description of the rule."""
        rule = policy.RULES.get(self.view.rules.get(self.method, ""))
        docstring = inspect.getdoc(getattr(self.view, self.method.lower()))
        text = self.view.sentences.get(self.method) or docstring or (rule.description if rule else "")
        return re.sub(r"\s+", " ", text.replace("``", "`"))

    def get_tags(self) -> list[str]:
        """Return the service and the path segment of the resource."""
        words = [word for word in self.path.split("/")[3:] if word]
        return [f"{self.view.service}: {words[0] if words else 'versions'}"]

    def get_auth(self) -> list[dict[str, list[str]]]:
        """Return the token requirement, or nothing for public operations."""
        public = self.view.public or self.method in self.view.public_methods
        return [] if public else [{"token": []}]

    def _get_parameters(self) -> list[Schema]:
        found = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", self.path)
        ]
        if self.method in self.view.queries:
            query = schema_for(self.view.queries, self.method, self.version)
            found += [_query_parameter(name, schema) for name, schema in query.get("properties", {}).items()]
        if self.view.microversions is not None:
            own = "" if self.view.service == "compute" else f"-{self.view.service}"
            found.append(ref("parameters", f"OpenStack-API-Version{own}"))
        found += [ref("parameters", name) for name in HEADERS.get((self.method, self.path), ())]
        return found

    def _get_request_body(self, direction: str = "request") -> Schema | None:
        if self.method not in {"POST", "PUT", "PATCH"} or self.refused:
            return None
        if (self.method, self.path) in DATA:
            return {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
        if self.method not in self.view.schemas:
            free = not self.path.endswith(WITHOUT_BODY) and self.method != "PUT"
            return {"content": {"application/json": {"schema": FREE_OBJECT}}} if free else None
        schema = portable(schema_for(self.view.schemas, self.method, self.version))
        kinds = [parser.media_type for parser in self.view.parser_classes]
        return {"required": True, "content": {kind: {"schema": schema} for kind in kinds[:1]}}

    def _get_response_bodies(self, direction: str = "response") -> Schema:
        service = self.view.service
        found: Schema = {} if self.refused else {str(code): _answer(self.path, code) for code in self.statuses}
        refusals = {*self.statuses} if self.refused else {400, 404, 503}
        refusals |= set() if self.view.public else {401, 403}
        refusals |= {409} if self.method != "GET" else set()
        refusals |= {413, 415} if self.method in {"POST", "PUT", "PATCH"} else set()
        refusals |= {429} if self.view.may_be_too_many(self.method) else set()
        refusals |= {406} if self.view.microversions is not None else set()
        found |= {str(code): ref("responses", f"{service}-{code}") for code in sorted(refusals)}
        return found | {"default": ref("responses", f"{service}-default")}


def span(view: ServiceView, method: str) -> tuple[Version, Version]:
    """Return the first and last microversion of the method."""
    last: Version | None = getattr(view, "last_version", None)
    if last is not None and method not in getattr(view, "answered_later", ()):
        return (0, 0), last
    return view.versions.get(method, ((0, 0), (999, 999)))


def _query_parameter(name: str, schema: Schema) -> Schema:
    """Return a parameter; for a repeatable one, the schema of one value."""
    one = schema.get("items", {}) if schema.get("type") == "array" else schema
    return {"name": name, "in": "query", "schema": portable(one) or {"type": "string"}}


def _answer(path: str, status: int) -> Schema:
    """Return the response of a success: its status; the fields of response objects are described in the reference."""
    answer: Schema = {"description": "Accepted." if status == 202 else "Done."}
    if status == 204:
        return answer
    kind = "application/octet-stream" if path.endswith("/file") else "application/json"
    return answer | {"content": {kind: {"schema": {} if path.endswith("/file") else FREE_OBJECT}}}
