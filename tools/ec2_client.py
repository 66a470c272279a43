"""Requests to the EC2 API, signed and parsed by botocore as in AWS clients, independent of the product's code."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import EC2QueryParser
from botocore.serialize import EC2Serializer

PATH = "/ec2/"
FORM = "application/x-www-form-urlencoded; charset=utf-8"
REQUEST_ID = "X-Amzn-Requestid"


@dataclass(frozen=True)
class Signed:
    """A request in its wire format. It is valid for a quarter of an hour, and can be used once if it
    changes something.
    """

    action: str
    body: str
    headers: Mapping[str, str]


class Ec2Keys:
    """An access key and its secret, for a cloud at this port."""

    def __init__(self, port: int, access: str, secret: str) -> None:
        self._port, self._credentials = port, Credentials(access, secret)

    def signed(self, action: str, arguments: Mapping[str, Any]) -> Signed:
        """Return the request for an action; ``arguments`` are named as in boto3."""
        found = EC2Serializer().serialize_to_request(dict(arguments), _model().operation_model(action))
        body = urlencode(found["body"])
        url = f"http://127.0.0.1:{self._port}{PATH}"
        request = AWSRequest("POST", url, data=body, headers={"Content-Type": FORM, "X-Nonce": uuid.uuid4().hex})
        SigV4Auth(self._credentials, "ec2", "RegionOne").add_auth(request)
        return Signed(action, body, {name: str(value) for name, value in request.headers.items()})


def read(action: str, status: int, content: bytes) -> dict[str, Any]:
    """Return the parsed answer in boto3's format; for a refusal ``{"Error": {"Code": …, "Message": …}}``.

    Raises botocore's ResponseParserError if the answer is not in EC2's format.
    """
    answer = {"body": content, "headers": {}, "status_code": status}
    found: dict[str, Any] = EC2QueryParser().parse(answer, _model().operation_model(action).output_shape)
    return found


@cache
def _model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("ec2", "service-2"), "ec2")
