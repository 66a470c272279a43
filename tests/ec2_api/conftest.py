"""boto3's own client, whose requests go through Django's test client instead of a socket."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from django.test import Client

from provisioning.identity.services.ec2 import create_ec2_credential
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.standing import derived, standing

URL = "http://testserver/ec2/"
Boto = Callable[[Person], Any]


class _Raw:
    """The body as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Any:
        yield self._body


def _send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
    kind = headers.pop("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
    headers.pop("Content-Length", None)
    answer = Client().post("/ec2/", data=request.body or b"", content_type=kind, headers=headers)
    return AWSResponse(request.url, answer.status_code, dict(answer.headers), _Raw(answer.content))


def _never_alike(request: Any, **_: Any) -> None:
    """Let two requests of one second be signed differently, so that none of them is refused for that."""
    request.headers["X-Nonce"] = str(uuid.uuid4())


@functools.cache
def _session() -> boto3.Session:
    """One for all clients: it has read EC2's model, which takes longer than most tests."""
    return boto3.Session()


def client(access: str, secret: str, region: str = "RegionOne", kind: str = "client") -> Any:
    """A client, or with ``kind`` ``resource`` a resource, of these keys."""
    config = Config(retries={"max_attempts": 0}, parameter_validation=False)
    keys = {"aws_access_key_id": access, "aws_secret_access_key": secret}
    made = getattr(_session(), kind)("ec2", region_name=region, endpoint_url=URL, config=config, **keys)
    events = (made.meta.client if kind == "resource" else made).meta.events
    events.register("before-send.ec2", _send)
    events.register_first("request-created.ec2", _never_alike)
    return made


@functools.cache
def _shared(number: int) -> Any:
    """A client that comes again in later tests with other keys: making one takes longer than a request."""
    del number
    return client("", "")


@pytest.fixture
@standing
def key_pairs(people: People) -> dict[uuid.UUID, tuple[str, str]]:
    """Access key and secret of each person of the cast."""
    return {each.user_id: create_ec2_credential(each.user, each.project) for each in people.everybody()}


@pytest.fixture
@derived
def boto(key_pairs: dict[uuid.UUID, tuple[str, str]]) -> Boto:
    """Make a client for somebody, with a key pair of its own."""
    known: dict[uuid.UUID, Any] = {}

    def of(person: Person) -> Any:
        if person.user_id not in known:
            made = known[person.user_id] = _shared(len(known))
            pair = key_pairs.get(person.user_id) or create_ec2_credential(person.user, person.project)
            keys = made._request_signer._credentials
            keys.access_key, keys.secret_key = pair
        return known[person.user_id]

    return of


@pytest.fixture
@derived
def alice(boto: Boto, people: People) -> Any:
    return boto(people.alice)


@pytest.fixture
@derived
def bob(boto: Boto, people: People) -> Any:
    return boto(people.bob)


@pytest.fixture
@derived
def charlie(boto: Boto, people: People) -> Any:
    return boto(people.charlie)


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1")
    return cloud


def code_of(error: pytest.ExceptionInfo[Any]) -> str:
    """The EC2 code of a ClientError."""
    return str(error.value.response["Error"]["Code"])


def refused(call: Any, **arguments: Any) -> str:
    """The EC2 code with which a call of boto3 is refused."""
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return code_of(error)
