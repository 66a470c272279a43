"""``/v3/users/{id}/credentials/OS-EC2``: access keys for AWS clients, and tokens for requests signed with them."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.auth import shapes
from portal.api.identity.auth.tokens import SUBJECT
from portal.api.identity.credentials.of_user import OfUserView
from portal.api.identity.dialect import bodies
from provisioning.common.errors import NotFoundError
from provisioning.identity.ec2_signatures import SignedRequest
from provisioning.identity.models import Credential
from provisioning.identity.selectors.credentials import credentials_for, existing_credential, project_to_enter
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.credentials import (
    EC2,
    blob_of,
    credential_id,
    delete_credential,
    ec2_keys,
    project_id_of,
)
from provisioning.identity.services.ec2 import authenticate_ec2, authenticate_s3, create_ec2_credential
from provisioning.identity.tokens import IssuedToken

Schema = dict[str, Any]

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_TEXT: Schema = {"type": "string", "maxLength": 65_535}


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


EC2_CREDENTIAL = _object({"tenant_id": _ID, "trust_id": {"type": "null"}}, ["tenant_id"])
"""``POST /v3/users/{id}/credentials/OS-EC2``."""

_TEXTS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "maxProperties": 500,
}
_SIGNED = _object(
    {
        "access": _NAME,
        "signature": _NAME,
        "host": {"type": "string", "maxLength": 255},
        "verb": {"type": "string", "maxLength": 16},
        "path": {"type": "string", "maxLength": 8192},
        "params": _TEXTS,
        "headers": _TEXTS,
        "body_hash": {"type": "string", "maxLength": 255},
    },
    ["access", "signature", "host", "verb", "path"],
)
EC2_TOKEN: Schema = {
    **_object(dict.fromkeys(("credentials", "credential", "ec2Credentials"), _SIGNED)),
    "minProperties": 1,
    "maxProperties": 1,
}
"""``POST /v3/ec2tokens``: the signed request, under one of three names."""
_TEXT_SIGNED = _object({"access": _NAME, "signature": _NAME, "token": _TEXT}, ["access", "signature", "token"])
S3_TOKEN: Schema = {
    **_object({"credentials": _TEXT_SIGNED, "credential": _TEXT_SIGNED}),
    "minProperties": 1,
    "maxProperties": 1,
}
"""``POST /v3/s3tokens``: ``token`` is the signed string in base64."""


class Ec2CredentialsView(OfUserView):
    """``/v3/users/{id}/credentials/OS-EC2``."""

    rules = {"GET": "identity:ec2_list_credentials", "POST": "identity:ec2_create_credential"}
    schemas: ClassVar[Schemas] = {"POST": EC2_CREDENTIAL}

    def get(self, request: Request, user_id: str) -> Response:
        """List the user's access keys with their secrets."""
        user = self.user
        found = credentials_for(self.context, user_id=user.id.hex, kind=EC2, everybody=True)
        items = (_shape(request, record) for record in found)
        return _secret(bodies.listing(request, "credentials", items, f"/users/{user.id.hex}/credentials/OS-EC2"))

    def post(self, request: Request, user_id: str) -> Response:
        """Create an access key for the user in a project."""
        user = self.user
        project = project_to_enter(self.context, user.id, self.checked_body()["tenant_id"])
        access, _ = create_ec2_credential(user, project, caller=self.context)
        record = existing_credential(self.context, credential_id(access), everybody=True)
        return _secret({"credential": _shape(request, record)}, 201)


class Ec2CredentialView(OfUserView):
    """``/v3/users/{id}/credentials/OS-EC2/{access}``."""

    rules = {"GET": "identity:ec2_get_credential", "DELETE": "identity:ec2_delete_credential"}

    def get(self, request: Request, user_id: str, access: str) -> Response:
        """Show an access key with its secret."""
        return _secret({"credential": _shape(request, self._record(user_id, access))})

    def delete(self, request: Request, user_id: str, access: str) -> Response:
        """Delete an access key; tokens obtained with it are revoked immediately."""
        delete_credential(self._record(user_id, access), caller=self.context)
        return Response(status=204)

    def _record(self, user_id: str, access: str) -> Credential:
        user = self.user
        missing = NotFoundError(f"Could not find credential: {access[:64]}.")
        try:
            found = existing_credential(self.context, credential_id(access), everybody=True)
        except NotFoundError as error:
            raise missing from error
        if found.user_id != user.id or found.type != EC2:
            raise missing
        return found


class Ec2TokensView(ServiceView):
    """``POST /v3/ec2tokens``: services exchange the signature of an AWS client's request for a token."""

    rules = {"POST": "identity:ec2tokens_validate"}
    schemas: ClassVar[Schemas] = {"POST": EC2_TOKEN}

    def post(self, request: Request) -> Response:
        """Return a token for the key's user and project, as ``POST /v3/auth/tokens`` does; 401 for every failure."""
        (signed,) = self.checked_body().values()
        issued = authenticate_ec2(
            SignedRequest(
                access=signed["access"],
                signature=signed["signature"],
                host=signed["host"],
                verb=signed["verb"],
                path=signed["path"],
                params=_texts(signed.get("params", {})),
                headers={name.lower(): value for name, value in _texts(signed.get("headers", {})).items()},
                body_hash=signed.get("body_hash", ""),
                must_sign_host=False,
            )
        )
        return _token(request, issued)


class S3TokensView(ServiceView):
    """``POST /v3/s3tokens``: like ``ec2tokens``, for a string signed by an S3 client."""

    rules = {"POST": "identity:s3tokens_validate"}
    schemas: ClassVar[Schemas] = {"POST": S3_TOKEN}

    def post(self, request: Request) -> Response:
        """Return a token for the key's user and project; 401 for every failure."""
        (signed,) = self.checked_body().values()
        issued = authenticate_s3(signed["access"], signed["token"], signed["signature"])
        return _token(request, issued)


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _token(request: Request, issued: IssuedToken) -> Response:
    context = context_of(issued.data)
    answer = _secret(shapes.token(request, issued.data, context, catalog="nocatalog" not in request.query_params))
    answer[SUBJECT] = issued.value
    return answer


def _shape(request: Request, record: Credential) -> dict[str, Any]:
    keys = ec2_keys(blob_of(record))
    user_id = record.user_id.hex
    return {
        "access": keys.access,
        "secret": keys.secret,
        "user_id": user_id,
        "tenant_id": project_id_of(record),
        "trust_id": record.trust_id.hex if record.trust_id else None,
        "links": bodies.self_link(request, f"/users/{user_id}/credentials/OS-EC2/{keys.access}"),
    }


def _secret(body: dict[str, Any], status: int = 200) -> Response:
    answer = Response(body, status=status)
    answer["Cache-Control"] = "no-store"
    return answer
