"""Signatures of AWS clients, against the examples that AWS publishes."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
import time_machine

from provisioning.identity.credentials.ec2_signatures import SignedRequest, is_s3_signature

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SECRET_OF_SUITE = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def of_version_4(names: str, signature: str, **fields: object) -> SignedRequest:
    """A request of the 30th of August 2015, as in AWS's test suite."""
    service = fields.pop("service", "service")
    headers = fields.pop("headers", {})
    scope = f"AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request"
    given: dict[str, object] = {
        "access": "AKIDEXAMPLE",
        "signature": signature,
        "host": "example.amazonaws.com",
        "verb": "GET",
        "path": "/",
        "params": {},
        "headers": {
            "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}",
            "host": "example.amazonaws.com",
            "x-amz-date": "20150830T123600Z",
            **headers,  # type: ignore[dict-item]
        },
        "body_hash": EMPTY,
    }
    return SignedRequest(**(given | fields))  # type: ignore[arg-type]


VANILLA = of_version_4("host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")
LIST_USERS = of_version_4(
    "content-type;host;x-amz-date",
    "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
    service="iam",
    host="iam.amazonaws.com",
    params={"Action": "ListUsers", "Version": "2010-05-08"},
    headers={"host": "iam.amazonaws.com", "content-type": "application/x-www-form-urlencoded; charset=utf-8"},
)
OF_VERSION_2 = SignedRequest(
    access="AKIAIOSFODNN7EXAMPLE",
    signature="i91nKc4PWAt0JJIdXwz9HxZCJDdiy6cf/Mj6vPxyYIs=",
    host="elasticmapreduce.amazonaws.com",
    verb="GET",
    path="/",
    params={
        "AWSAccessKeyId": "AKIAIOSFODNN7EXAMPLE",
        "Action": "DescribeJobFlows",
        "SignatureMethod": "HmacSHA256",
        "SignatureVersion": "2",
        "Timestamp": "2011-10-03T15:19:30",
        "Version": "2009-03-31",
    },
    headers={},
    body_hash="",
)


@pytest.mark.parametrize("request_", [VANILLA, LIST_USERS])
def test_version_4(request_: SignedRequest) -> None:
    with time_machine.travel("2015-08-30T12:40:00Z"):
        assert request_.is_signed_with(SECRET_OF_SUITE)
        assert replace(
            request_, host="x", headers={**request_.headers, "host": f"{request_.host}:8773"}
        ).is_signed_with(SECRET_OF_SUITE)
        assert not request_.is_signed_with(SECRET)
        for change in (
            {"verb": "PUT"},
            {"path": "/x"},
            {"params": {"Action": "Other"}},
            {"body_hash": "0" * 64},
            {"access": "OTHER"},
            {"signature": ""},
            {"headers": {**request_.headers, "x-amz-date": "20150830T123601Z"}},
            {"headers": {**request_.headers, "x-amz-date": ""}},
            {"headers": {**request_.headers, "authorization": "AWS4-HMAC-SHA256 Credential=,SignedHeaders"}},
        ):
            assert not replace(request_, **change).is_signed_with(SECRET_OF_SUITE), change  # type: ignore[arg-type]


def test_the_host_is_signed_where_that_is_demanded() -> None:
    request = of_version_4("x-amz-date", "", must_sign_host=False)
    scope, moment = ["20150830", "us-east-1", "service", "aws4_request"], "20150830T123600Z"
    signature = request._signed_4(SECRET_OF_SUITE, scope, moment, ["x-amz-date"], "", request.host)
    signed = replace(request, signature=signature)
    with time_machine.travel("2015-08-30T12:40:00Z"):
        assert signed.is_signed_with(SECRET_OF_SUITE)
        assert not replace(signed, must_sign_host=True).is_signed_with(SECRET_OF_SUITE)


def test_version_2() -> None:
    with time_machine.travel("2011-10-03T15:20:00Z"):
        assert OF_VERSION_2.is_signed_with(SECRET)
        assert replace(OF_VERSION_2, host="ElasticMapReduce.amazonaws.com:443").is_signed_with(SECRET)
        assert not OF_VERSION_2.is_signed_with(SECRET_OF_SUITE)
        for change in (
            {"verb": "POST"},
            {"host": "example.com"},
            {"path": "/x"},
            {"access": "OTHER"},
            {"params": {**OF_VERSION_2.params, "Action": "Other"}},
            {"params": {**OF_VERSION_2.params, "SignatureVersion": "1"}},
            {"params": {**OF_VERSION_2.params, "SignatureMethod": "none"}},
            {"params": {name: value for name, value in OF_VERSION_2.params.items() if name != "Timestamp"}},
        ):
            assert not replace(OF_VERSION_2, **change).is_signed_with(SECRET), change  # type: ignore[arg-type]


@pytest.mark.parametrize("moment", ["2015-08-30T12:20:00Z", "2015-08-30T12:52:00Z"])
def test_old_and_future_requests_are_worth_nothing(moment: str) -> None:
    with time_machine.travel(moment):
        assert not VANILLA.is_signed_with(SECRET_OF_SUITE)
    with time_machine.travel("2011-10-03T15:40:00Z"):
        assert not OF_VERSION_2.is_signed_with(SECRET)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_s3_version_2() -> None:
    text = "GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/johnsmith/photos/puppy.jpg"
    signature = "bWq2s1WEIj+Ydj0vQ697zp+IXMU="
    assert is_s3_signature(SECRET, encoded(text), signature)
    assert not is_s3_signature(SECRET, encoded(text + " "), signature)
    for token in ("", "x", "é", encoded("")):
        assert not is_s3_signature(SECRET, token, signature)


def test_s3_version_4() -> None:
    canonical = "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972"
    text = f"AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n{canonical}"
    signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    with time_machine.travel("2013-05-24T00:05:00Z"):
        assert is_s3_signature(SECRET, encoded(text), signature)
        assert not is_s3_signature(SECRET, encoded(text[:-1]), signature)
        assert not is_s3_signature(SECRET, encoded("AWS4-HMAC-SHA256\nx"), signature)
    with time_machine.travel("2013-05-24T01:00:00Z"):
        assert not is_s3_signature(SECRET, encoded(text), signature)
