"""Signed requests to the EC2 API through Django's test client, and what their answers say."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.serialize import EC2Serializer
from django.test import Client

from portal.api.ec2.protocol import model

URL = "http://testserver/ec2/"
FORM = "application/x-www-form-urlencoded"
VERSION = "2016-11-15"
OK = "ok"
"""In the place of an error's code, when there was none."""
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Keys:
    """An access key and its secret."""

    access: str
    secret: str


@dataclass(frozen=True)
class Answer:
    """What a request was answered."""

    status: int
    content: bytes
    headers: Mapping[str, str]

    @property
    def root(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.content)  # noqa: S314 - our own answer

    @property
    def code(self) -> str:
        """The code of the error, or ``ok``."""
        return OK if self.status == 200 else str(self.root.findtext("Errors/Error/Code"))

    @property
    def text(self) -> str:
        return self.content.decode()


def pairs_of(action: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parameters that boto3 sends for these arguments."""
    body = EC2Serializer().serialize_to_request(dict(arguments), model.operation(action))["body"]
    named = [(name, value) for name, value in body.items() if name not in {"Action", "Version"}]
    return parse_qsl(urlencode(named), keep_blank_values=True)


def signed(keys: Keys, body: str, service: str = "ec2") -> dict[str, str]:
    """Return the headers of a request with this body."""
    request = AWSRequest("POST", URL, data=body, headers={"Content-Type": FORM, "X-Nonce": uuid.uuid4().hex})
    SigV4Auth(Credentials(keys.access, keys.secret), service, "RegionOne").add_auth(request)
    return {name: str(value) for name, value in request.headers.items() if name != "Content-Type"}


def body_of(action: str, pairs: Pairs) -> str:
    named = [("Action", action), ("Version", VERSION), *pairs]
    return urlencode([(_bytes(name), _bytes(value)) for name, value in named])


def send(client: Client, body: str | bytes, headers: Mapping[str, str], path: str = "/ec2/") -> Answer:
    answer = client.post(path, data=body, content_type=FORM, headers=dict(headers))
    return Answer(answer.status_code, answer.content, dict(answer.headers))


def ask(client: Client, keys: Keys, action: str, pairs: Pairs) -> Answer:
    """Ask for an action with these parameters."""
    body = body_of(action, pairs)
    return send(client, body, signed(keys, body))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
