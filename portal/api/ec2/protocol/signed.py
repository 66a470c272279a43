"""The signature parameters of a request, versions 2 and 4."""

import hashlib
import re
from collections.abc import Sequence

from django.http import HttpRequest

from portal.api.ec2.frame import Ec2Error, errors
from provisioning.identity.credentials.ec2_signatures import ALGORITHM, SignedRequest

OF_PROTOCOL = frozenset(
    {
        *("Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "Timestamp"),
        *("Expires", "SecurityToken", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires"),
        *("X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Security-Token"),
    }
)
"""Parameters that are not arguments of the action."""
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM}\s+(?=.*Credential=([^,\s]+))(?=.*SignedHeaders=[^,\s]+)(?=.*Signature=([0-9a-f]{{64}})).*",
    re.DOTALL,
)


def signed_request(request: HttpRequest, pairs: Sequence[tuple[str, str]], service: str) -> SignedRequest:
    """Return the signed request; ``pairs`` are its parameters, without repeated names.

    Raises Ec2Error if the signature is missing, incomplete or for another service.
    """
    params = dict(pairs)
    named = "Authorization" in request.headers
    access, signature = _of_header(request, service) if named else _of_parameters(params, service)
    return SignedRequest(
        access=access,
        signature=signature,
        host=request.get_host(),
        verb=str(request.method),
        path=request.path,
        params=params,
        headers={name.lower(): value for name, value in request.headers.items()},
        body_hash=hashlib.sha256(request.body).hexdigest(),
    )


def _of_header(request: HttpRequest, service: str) -> tuple[str, str]:
    value = request.headers["Authorization"]
    match = _AUTHORIZATION.fullmatch(value) if len(value) <= 4096 else None
    if match is None:
        raise Ec2Error(
            "IncompleteSignature",
            "The request signature does not conform to AWS standards: Authorization must have Credential, SignedHeaders"
            f" and Signature of {ALGORITHM}.",
        )
    return _scoped(match[1], service), match[2]


def _of_parameters(params: dict[str, str], service: str) -> tuple[str, str]:
    if "X-Amz-Signature" in params:
        return _scoped(params.get("X-Amz-Credential", ""), service), params["X-Amz-Signature"]
    if "AWSAccessKeyId" not in params:
        raise Ec2Error("MissingAuthenticationToken", "Request is missing Authentication Token", status=403)
    if "Signature" not in params:
        raise errors.missing_parameter("Signature")
    if params.get("SignatureVersion") != "2":
        raise Ec2Error("IncompleteSignature", "SignatureVersion must be 2, or the request be signed in version 4")
    return params["AWSAccessKeyId"], params["Signature"]


def _scoped(credential: str, service: str) -> str:
    """Return the access key of a version 4 credential. Raises Ec2Error if it is for another service.

    Any region is accepted, because clients are often configured for a region of AWS.
    """
    parts = credential.split("/")
    if len(parts) != 5 or not parts[0]:
        raise Ec2Error(
            "IncompleteSignature", "Credential must have the access key, date, region, service and 'aws4_request'"
        )
    if parts[3:] != [service, "aws4_request"]:
        words = f"Credential should be scoped to service '{service}' and to 'aws4_request'"
        raise Ec2Error("SignatureDoesNotMatch", words, status=403)
    return parts[0]
