"""Key pairs: CreateKeyPair, ImportKeyPair, DescribeKeyPairs, DeleteKeyPair.

Key pairs belong to the user, not to a project.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from django.db.models import QuerySet

from portal.api.ec2.describe import Column, Described
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors as compute
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.ec2 import ids

KIND = names.KEY_PAIR
TAKEN = "InvalidKeyPair.Duplicate"
_TYPES = {"ssh-rsa": "rsa", "ssh-ed25519": "ed25519"}
"""First word of a public key → EC2's key type; other keys have no type."""
_RFC_4716 = "---- BEGIN SSH2 PUBLIC KEY ----"


@action(
    "CreateKeyPair",
    "os_compute_api:os-keypairs:create",
    takes="KeyName KeyType KeyFormat TagSpecifications",
    conflict=TAKEN,
)
def create(call: Call) -> Shape:
    """Create a key pair; only this response contains the private key."""
    specified = tags.specified(call, KIND)
    if call.get("KeyFormat", "pem") != "pem":
        raise errors.unsupported("Private keys are created in the format pem; puttygen converts them to ppk")
    pair, private = create_key_pair(call.context, call.arguments["KeyName"], algorithm=call.get("KeyType", "rsa"))
    tags.write(call, KIND, [names.key_of(pair)], specified)
    return _answer(pair, specified) | {"KeyMaterial": _pem(private or "")}


@action(
    "ImportKeyPair",
    "os_compute_api:os-keypairs:create",
    takes="KeyName PublicKeyMaterial TagSpecifications",
    conflict=TAKEN,
)
def import_(call: Call) -> Shape:
    """Import a public key."""
    specified = tags.specified(call, KIND)
    try:
        line = _openssh(call.arguments["PublicKeyMaterial"])
        pair, _ = create_key_pair(call.context, call.arguments["KeyName"], public_key=line)
    except InvalidInputError as error:
        if error.field != "public_key":
            raise
        raise Ec2Error("InvalidKeyPair.Format", error.message) from error
    tags.write(call, KIND, [names.key_of(pair)], specified)
    return _answer(pair, specified)


def _rows(call: Call) -> QuerySet[KeyPair]:
    """Return the key pairs with the specified names or ids, by default all key pairs of the user. Raises Ec2Error."""
    rows, by_name, by_id = compute.own_key_pairs(call.context), call.get("KeyNames", []), call.get("KeyPairIds", [])
    named = names.with_names(rows, "name", by_name, _no_such_name)
    specified = [pair.pk for pair in names.those(KIND, by_id, rows)] if by_id else []
    return rows.filter(pk__in=specified) | named if by_name else rows.filter(pk__in=specified) if by_id else rows


def _no_such_name(name: str) -> Ec2Error:
    return Ec2Error(KIND.missing, f"The key pair '{name[:120]}' does not exist")


def _shapes(call: Call, pairs: Sequence[KeyPair]) -> list[Shape]:
    resources = [names.key_of(pair) for pair in pairs]
    ec2_ids, tagged = KIND.ids_of(resources), tags.shapes(KIND, resources)
    return [
        {
            "KeyName": pair.name,
            "KeyPairId": ec2_ids[key],
            "KeyType": _TYPES.get(_first_word(pair)),
            "KeyFingerprint": _fingerprint(pair),
            "CreateTime": pair.created_at,
            "PublicKey": pair.public_key if call.get("IncludePublicKey", False) else None,
            "Tags": tagged[key],
        }
        for pair, key in zip(pairs, resources, strict=True)
    ]


DESCRIBE_KEY_PAIRS = Described(
    action="DescribeKeyPairs",
    rule="os_compute_api:os-keypairs:index",
    member="KeyPairs",
    kind=KIND,
    paged=False,
    takes="KeyNames KeyPairIds IncludePublicKey",
    rows=_rows,
    shape=_shapes,
    filters={
        "key-pair-id": Column("KeyPairId", "pk", KIND),
        "key-name": Column("KeyName", "name"),
        "fingerprint": "KeyFingerprint",
    },
)


@action("DeleteKeyPair", "os_compute_api:os-keypairs:delete", takes="KeyName KeyPairId")
def delete(call: Call) -> Shape:
    """Delete a key pair by name or id; a missing one is ignored."""
    name, ec2_id = call.get("KeyName"), call.get("KeyPairId")
    if (name is None) == (ec2_id is None):
        raise errors.missing_parameter("KeyName") if name is None else errors.combination("Specify its name or its id")
    if ec2_id is not None:
        names.check_form(KIND, [ec2_id])
        meant = ids.resources_of(KIND.prefix, [ec2_id]).get(ec2_id)
        name = next((pair.name for pair in compute.key_pairs_for(call.context) if names.key_of(pair) == meant), None)
        if name is None:
            return {"Return": True}
    try:
        pair = compute.key_pair_for(call.context, name)
    except NotFoundError:
        return {"Return": True}
    key_pair_id = KIND.id_of(names.key_of(pair))
    delete_key_pair(call.context, name)
    return {"Return": True, "KeyPairId": key_pair_id}


def _answer(pair: KeyPair, requested: Mapping[str, Mapping[str, str]]) -> Shape:
    return {
        "KeyName": pair.name,
        "KeyPairId": KIND.id_of(names.key_of(pair)),
        "KeyFingerprint": _fingerprint(pair),
        "Tags": tags.shape(requested.get(KIND.resource_type, {})),
    }


def _first_word(pair: KeyPair) -> str:
    return pair.public_key.split(maxsplit=1)[0] if pair.type == "ssh" else ""


def _fingerprint(pair: KeyPair) -> str:
    """Return the SHA-256 of an ed25519 key in base64, or for other keys the MD5 of the public key, which EC2 uses for
    imported keys.

    For generated RSA keys, EC2 derives the fingerprint from the private key, which Novella does not store.
    """
    if _first_word(pair) != "ssh-ed25519":
        return pair.fingerprint
    return base64.b64encode(hashlib.sha256(base64.b64decode(pair.public_key.split()[1])).digest()).decode()


def _pem(private: str) -> str:
    """Return an RSA key in PKCS #1 format, which programs that decrypt guest passwords require. An ed25519 key is
    returned unchanged.
    """
    key = serialization.load_ssh_private_key(private.encode(), None)
    if not isinstance(key, RSAPrivateKey):
        return private
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _openssh(material: bytes) -> str:
    """Return a public key in OpenSSH format. Text in RFC 4716 format, or the base64 of a key's DER, is converted.

    Other text is returned unchanged; the service rejects it unless it is a key in OpenSSH format.
    """
    text = material.decode("utf-8", "replace")
    try:
        if text.strip().startswith(_RFC_4716):
            blob = base64.b64decode(_body(text.strip()), validate=True)
            return f"{blob[4 : 4 + int.from_bytes(blob[:4])].decode('ascii')} {base64.b64encode(blob).decode()}"
        key = serialization.load_der_public_key(base64.b64decode("".join(text.split()), validate=True))
    except (ValueError, UnsupportedAlgorithm):
        return text
    if not isinstance(key, RSAPublicKey | Ed25519PublicKey):
        return text
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def _body(text: str) -> str:
    """Return the base64 of a key file (RFC 4716, section 3; headers continue after a backslash)."""
    lines, header = [], False
    for line in text.splitlines()[1:-1]:
        header = header or ":" in line
        if not header:
            lines.append(line.strip())
        header = header and line.endswith("\\")
    return "".join(lines)
