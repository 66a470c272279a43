"""What the requests beside servers may look like: flavors and key pairs."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_COUNT: Schema = {"type": ["integer", "string"], "pattern": "^[0-9]*$"}


def flavor_create(microversion: tuple[int, int]) -> Schema:
    """Return the schema of ``POST /flavors``."""
    properties: Schema = {
        "name": {"type": "string", "minLength": 1, "maxLength": 255},
        "id": {
            "type": ["string", "number", "null"],
            "minLength": 1,
            "maxLength": 255,
            "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )$",
        },
        "ram": _COUNT | {"minimum": 1, "maximum": 2147483647},
        "vcpus": _COUNT | {"minimum": 1, "maximum": 2147483647},
        "disk": _COUNT | {"minimum": 0, "maximum": 2147483647},
        "OS-FLV-EXT-DATA:ephemeral": _COUNT | {"minimum": 0, "maximum": 2147483647},
        "swap": _COUNT | {"minimum": 0, "maximum": 2147483647},
        "rxtx_factor": {"type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?$", "exclusiveMinimum": 0},
        "os-flavor-access:is_public": {"enum": [True, False, "True", "true", "False", "false", "1", "0"]},
    }
    if microversion >= (2, 55):
        properties["description"] = {"type": ["string", "null"], "maxLength": 65535}
    return {
        "type": "object",
        "properties": {
            "flavor": {
                "type": "object",
                "properties": properties,
                "required": ["name", "ram", "vcpus", "disk"],
                "additionalProperties": False,
            }
        },
        "required": ["flavor"],
        "additionalProperties": False,
    }


def keypair_create(microversion: tuple[int, int]) -> Schema:
    """Return the schema of ``POST /os-keypairs``."""
    properties: Schema = {
        "name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[a-zA-Z0-9 _.@-]+(?<! )$"},
        "public_key": {"type": "string", "minLength": 1, "maxLength": 16384},
    }
    if microversion < (2, 92):
        # Novella's own: which kind of key is generated; OpenStack has no such field, so clients never send it.
        properties["novella:algorithm"] = {"enum": ["ed25519", "rsa"]}
    if microversion >= (2, 2):
        properties["type"] = {"enum": ["ssh", "x509"]}
    if microversion >= (2, 10):
        properties["user_id"] = {"type": "string", "minLength": 1, "maxLength": 255}
    return {
        "type": "object",
        "properties": {
            "keypair": {
                "type": "object",
                "properties": properties,
                "required": ["name"],
                "additionalProperties": False,
            }
        },
        "required": ["keypair"],
        "additionalProperties": False,
    }
