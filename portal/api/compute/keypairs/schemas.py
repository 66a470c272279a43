"""JSON schemas of requests about key pairs."""

from portal.api.compute.schemas import PAGES, TEXT, Schema, Version, body, query

OF_USERS = (2, 10)
"""From this version on operators may name another user."""
PAGED = (2, 35)
IMPORT_ONLY = (2, 92)
"""From this version on key pairs are not generated."""


def create(version: Version) -> Schema:
    """Return the schema of ``POST /os-keypairs``."""
    more = "@." if version >= IMPORT_ONLY else ""
    properties: Schema = {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "pattern": rf"^(?! )[a-zA-Z0-9 _{more}-]+(?<! )\Z",
        },
        "public_key": {"type": "string", "minLength": 1, "maxLength": 16_384},
    }
    if version >= (2, 2):
        properties["type"] = {"enum": ["ssh", "x509"]}
    if version >= OF_USERS:
        properties["user_id"] = {"type": "string", "minLength": 1, "maxLength": 255}
    if version >= IMPORT_ONLY:
        return body("keypair", properties, ("name", "public_key"))
    # Novella's own: the type of a generated key. OpenStack has no such field, so its clients do not send it.
    properties["novella:algorithm"] = {"enum": ["ed25519", "rsa"]}
    return body("keypair", properties, ("name",))


def one(version: Version) -> Schema:
    """The query of ``GET`` and ``DELETE /os-keypairs/{name}``."""
    return query(version, {"user_id": TEXT} if version >= OF_USERS else {})


def listing(version: Version) -> Schema:
    """The query of ``GET /os-keypairs``."""
    pages = PAGES if version >= PAGED else {}
    return query(version, {**pages, **({"user_id": TEXT} if version >= OF_USERS else {})})
