"""``/v3/users/{id}/credentials/OS-EC2``: access keys for AWS clients, and tokens for requests signed with them."""

from collections.abc import Sequence
from typing import Any

from rest_framework.response import Response

from portal.api.frame import Call, Json, Schema, ServiceView, parts
from portal.api.identity.auth import tokens
from portal.api.identity.auth.tokens import SUBJECT
from portal.api.identity.credentials.credentials import OfUserView
from portal.api.identity.dialect import lists, patterns
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity.credentials.ec2_signatures import SignedRequest
from provisioning.identity.models import Credential, User
from provisioning.identity.selectors.credentials import credentials_for, existing_credential, project_to_enter
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services import credentials
from provisioning.identity.services.ec2 import authenticate_ec2, authenticate_s3, create_ec2_credential
from provisioning.identity.tokens.tokens import IssuedToken

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
    """``/v3/users/{id}/credentials/OS-EC2``: the caller and the user are the first arguments of the services."""

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        own = {**ids}
        own.pop("user_id")
        return (self.context, self.user, *own.values())


def _credentials(context: RequestContext, user: User) -> Sequence[Credential]:
    return credentials_for(context, user_id=user.id.hex, kind=credentials.EC2, everybody=True)


def _create(context: RequestContext, user: User, body: Json) -> Credential:
    project = project_to_enter(context, user.id, body["tenant_id"])
    access, _ = create_ec2_credential(user, project, caller=context)
    return existing_credential(context, credentials.credential_id(access), everybody=True)


def _credential(context: RequestContext, user: User, access: str) -> Credential:
    """Return the credential of an access key. Raises NotFoundError for the key of another user."""
    missing = NotFoundError(f"Could not find credential: {access[:64]}.")
    try:
        found = existing_credential(context, credentials.credential_id(access), everybody=True)
    except NotFoundError as error:
        raise missing from error
    if found.user_id != user.id or found.type != credentials.EC2:
        raise missing
    return found


def _delete(context: RequestContext, user: User, access: str) -> None:
    credentials.delete_credential(_credential(context, user, access), caller=context)


def _authenticate_ec2(context: RequestContext, body: Json) -> IssuedToken:
    (signed,) = body.values()
    return authenticate_ec2(
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


def _authenticate_s3(context: RequestContext, body: Json) -> IssuedToken:
    (signed,) = body.values()
    return authenticate_s3(signed["access"], signed["token"], signed["signature"])


def _texts(values: Json) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _token(view: ServiceView, issued: IssuedToken) -> Response:
    context = context_of(issued.data)
    body = tokens.token_shape(view.request, issued.data, context, catalog="nocatalog" not in view.request.query_params)
    return Response(body, headers={SUBJECT: issued.value, "Cache-Control": "no-store"})


def _shape(view: ServiceView, record: Credential) -> Json:
    keys = credentials.ec2_keys(credentials.blob_of(record))
    user_id = record.user_id.hex
    return {
        "access": keys.access,
        "secret": keys.secret,
        "user_id": user_id,
        "tenant_id": credentials.project_id_of(record),
        "trust_id": record.trust_id.hex if record.trust_id else None,
        "links": lists.self_link(view.request, f"/users/{user_id}/credentials/OS-EC2/{keys.access}"),
    }


def _shapes(view: ServiceView, records: Sequence[Credential]) -> Json:
    path = lists.own_path(view.request)
    return lists.listing(view.request, "credentials", [_shape(view, record) for record in records], path)


ROUTES = patterns(
    parts(
        Ec2CredentialsView,
        "users/{user_id}/credentials/OS-EC2",
        {
            "GET": Call(
                _credentials,
                "identity:ec2_list_credentials",
                "List the user's access keys with their secrets.",
                shape=_shapes,
            ),
            "POST": Call(
                _create,
                "identity:ec2_create_credential",
                "Create an access key for the user in a project.",
                name="credential",
                shape=_shape,
                status=201,
                body=EC2_CREDENTIAL,
            ),
            "GET /{access}": Call(
                _credential,
                "identity:ec2_get_credential",
                "Show an access key with its secret.",
                name="credential",
                shape=_shape,
            ),
            "DELETE /{access}": Call(
                _delete,
                "identity:ec2_delete_credential",
                "Delete an access key; tokens obtained with it are revoked immediately.",
            ),
        },
    )
    | parts(
        ServiceView,
        "",
        {
            "POST ec2tokens": Call(
                _authenticate_ec2,
                "identity:ec2tokens_validate",
                "Return a token for the key's user and project, as ``POST /v3/auth/tokens`` does; 401 for every"
                " failure.",
                shape=_token,
                body=EC2_TOKEN,
            ),
            "POST s3tokens": Call(
                _authenticate_s3,
                "identity:s3tokens_validate",
                "Return a token for the key's user and project; 401 for every failure.",
                shape=_token,
                body=S3_TOKEN,
            ),
        },
    )
)
