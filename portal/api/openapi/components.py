"""Common components of the document: faults in each service's format, headers, and authentication by token."""

from http import HTTPStatus
from typing import Any

from portal.api.common.faults import COMPUTE_NAMES
from portal.api.common.links import SERVICES
from portal.api.common.microversions import Version, text_of
from portal.api.volume.base import MICROVERSIONS as VOLUME_MICROVERSIONS

Schema = dict[str, Any]

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
    "X-Openstack-Image-Size": "How many bytes the image has.",
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
