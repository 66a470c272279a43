"""Signatures and parameters: everything that is rejected before an action runs."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
import time_machine
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from portal.api.common import faults
from provisioning.ec2.models import Ec2Tag, SpentSignature
from provisioning.identity.models import ApplicationCredential, Credential
from provisioning.identity.services.ec2 import create_ec2_credential
from tests.ec2_api.conftest import URL, client, code_of
from tests.ec2_api.things import of_application_credential
from tests.identity.trusts.giving import give, token, with_token
from tests.support.cast import People
from tests.support.roles import remove_role
from tests.support.standing import standing
from tests.support.tables import each_row

VERSION = {"Version": "2016-11-15"}
KEYS = tuple[str, str]


@pytest.fixture
@standing
def keys(people: People) -> KEYS:
    return create_ec2_credential(people.alice.user, people.alice.project)


def _code(answer: HttpResponse) -> str:
    assert answer["Content-Type"] == "text/xml;charset=UTF-8"
    return str(_root(answer).findtext("Errors/Error/Code"))


def _root(answer: HttpResponse) -> ElementTree.Element:
    return ElementTree.fromstring(answer.content)  # noqa: S314 - our own answer


def _signed(keys: KEYS, body: str, **headers: str) -> dict[str, str]:
    request = AWSRequest(
        "POST", URL, data=body, headers={"Content-Type": "application/x-www-form-urlencoded", **headers}
    )
    SigV4Auth(Credentials(*keys), "ec2", "RegionOne").add_auth(request)
    return {name: str(value) for name, value in request.headers.items()}


def _post(body: str, headers: dict[str, str]) -> HttpResponse:
    kind = headers.pop("Content-Type", "application/x-www-form-urlencoded")
    return Client().post("/ec2/", data=body, content_type=kind, headers=headers)


def _ask(keys: KEYS, **parameters: str) -> HttpResponse:
    body = urlencode({"Action": "DescribeRegions", **VERSION, **parameters})
    return _post(body, _signed(keys, body))


def test_a_signed_request_is_answered(keys: KEYS) -> None:
    answer = _ask(keys)
    root = _root(answer)
    assert answer.status_code == 200
    assert root.tag == "{http://ec2.amazonaws.com/doc/2016-11-15/}DescribeRegionsResponse"
    assert root.findtext("{*}requestId") == answer["X-Openstack-Request-Id"] == answer["X-Amzn-Requestid"]


def test_a_presigned_address_works_until_it_ends(keys: KEYS) -> None:
    request = AWSRequest("GET", f"{URL}?{urlencode({'Action': 'DescribeRegions', **VERSION})}")
    SigV4QueryAuth(Credentials(*keys), "ec2", "RegionOne", expires=60).add_auth(request)
    path = request.url.removeprefix("http://testserver")
    assert Client().get(path).status_code == 200
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=90)):
        assert _code(Client().get(path)) == "RequestExpired"


def test_version_2_is_answered_by_timestamp_and_by_expiry(keys: KEYS) -> None:
    for when in ({"Timestamp": _in(0)}, {"Expires": _in(60)}):
        assert Client().get(_version_2(keys, **when)).status_code == 200
    for when in ({"Timestamp": _in(-1000)}, {"Expires": _in(-1)}, {"Expires": _in(3700)}, {}, {"Timestamp": "soon"}):
        assert _code(Client().get(_version_2(keys, **when))) == "RequestExpired"


def _in(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version_2(keys: KEYS, **when: str) -> str:
    params = {
        "Action": "DescribeRegions",
        "Version": "2012-12-01",
        "AWSAccessKeyId": keys[0],
        "SignatureVersion": "2",
        "SignatureMethod": "HmacSHA256",
        **when,
    }
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(params[name], safe='-_.~')}" for name in sorted(params))
    text = f"GET\ntestserver\n/ec2/services/Cloud\n{query}"
    signature = base64.b64encode(hmac.new(keys[1].encode(), text.encode(), hashlib.sha256).digest()).decode()
    return f"/ec2/services/Cloud?{query}&Signature={quote(signature, safe='')}"


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        ({}, "MissingAuthenticationToken", 403),
        ({"Authorization": "Basic YTpi"}, "IncompleteSignature", 400),
        ({"Authorization": "AWS4-HMAC-SHA256 " + "Credential=" * 5000}, "IncompleteSignature", 400),
    ],
)
def test_what_is_not_signed_is_notified(keys: KEYS, change: dict[str, str], code: str, status: int) -> None:
    answer = _post(urlencode({"Action": "DescribeRegions", **VERSION}), change)
    assert (_code(answer), answer.status_code) == (code, status)


def test_wrong_signatures_and_keys_are_refused_alike(keys: KEYS, people: People) -> None:
    wrong = client(keys[0], "0" * 64)
    unknown = client("f" * 32, keys[1])
    revoked = client(*create_ec2_credential(people.alice.user, people.alice.project))
    errors = set()
    for other in (wrong, unknown):
        with pytest.raises(ClientError) as error:
            other.describe_regions()
        errors.add((code_of(error), error.value.response["Error"]["Message"]))
    Credential.objects.all().delete()
    with pytest.raises(ClientError) as error:
        revoked.describe_regions()
    errors.add((code_of(error), error.value.response["Error"]["Message"]))
    assert errors == {("AuthFailure", "AWS was not able to validate the provided access credentials")}


def test_a_changed_body_and_a_wrong_clock_are_refused(keys: KEYS) -> None:
    body = urlencode({"Action": "DescribeRegions", **VERSION})
    assert _code(_post(f"{body}&MaxResults=5", _signed(keys, body))) == "AuthFailure"
    with time_machine.travel(datetime.now(UTC) - timedelta(minutes=16)):
        headers = _signed(keys, body)
    assert _code(_post(body, headers)) == "RequestExpired"


def test_what_changes_something_counts_once(keys: KEYS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two alike within a second may be two requests of one client, which then sends the second again."""
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a request's thread waits"))
    body = urlencode({"Action": "CreateTags", **VERSION, "ResourceId.1": "x-12345678", "Tag.1.Key": "a"})
    headers = _signed(keys, body)
    assert _code(_post(body, dict(headers))) == "InvalidID"
    again = _post(body, dict(headers))
    assert (_code(again), again.status_code) == ("RequestLimitExceeded", 503)
    assert 0 < again.held_back <= 1, "the client's next try has another second in its signature"
    assert again["Retry-After"] == "1"
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=2)):
        assert _code(_post(body, dict(headers))) == "RequestExpired"
        assert _code(_post(body, _signed(keys, body))) == "InvalidID"
    assert SpentSignature.objects.count() == 2


def test_a_used_signature_is_recorded_for_as_long_as_it_is_valid(keys: KEYS) -> None:
    ids = {"ResourceId.1": "x-12345678", "Tag.1.Key": "a"}
    for when in ({"Timestamp": _in(0)}, {"Expires": _in(3000)}):
        assert _code(Client().get(_version_2(keys, **when, **ids, Action="CreateTags"))) == "InvalidID"
    by_timestamp, by_expiry = SpentSignature.objects.order_by("ends_at").values_list("ends_at", flat=True)
    now = datetime.now(UTC)
    assert timedelta(minutes=29) < by_timestamp - now <= timedelta(minutes=30)
    assert timedelta(seconds=2900) < by_expiry - now <= timedelta(seconds=3000)


def test_what_only_reads_may_be_sent_again(keys: KEYS) -> None:
    body = urlencode({"Action": "DescribeRegions", **VERSION})
    headers = _signed(keys, body)
    assert {_post(body, dict(headers)).status_code for _ in range(3)} == {200}
    assert not SpentSignature.objects.exists()


def test_what_has_a_client_token_is_answered_again(keys: KEYS) -> None:
    """The token makes it once: a client that lost the answer may send the very same bytes."""
    body = urlencode({"Action": "CreateNetworkInterface", **VERSION, "SubnetId": "subnet-1", "ClientToken": "a"})
    headers = _signed(keys, body)
    assert [_code(_post(body, dict(headers))) for _ in range(2)] == ["InvalidSubnetID.Malformed"] * 2


@pytest.mark.parametrize("service", ["s3", "EC2", ""])
def test_a_signature_for_another_service_is_refused(keys: KEYS, service: str) -> None:
    body = urlencode({"Action": "DescribeRegions", **VERSION})
    request = AWSRequest("POST", URL, data=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    SigV4Auth(Credentials(*keys), service, "us-east-1").add_auth(request)
    answer = _post(body, {name: str(value) for name, value in request.headers.items()})
    assert (_code(answer), answer.status_code) == ("SignatureDoesNotMatch", 403)


@pytest.mark.parametrize("what", ["user", "project"])
def test_keys_of_what_is_disabled_open_nothing(keys: KEYS, people: People, what: str) -> None:
    record = getattr(people.alice, what)
    record.enabled = False
    record.save(update_fields=["enabled"])
    assert _code(_ask(keys)) == "AuthFailure"


def test_keys_of_an_ended_application_credential_open_nothing(people: People) -> None:
    limited = of_application_credential(people.alice, "x", "member", "ec2")
    assert _ask(limited).status_code == 200
    ApplicationCredential.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert _code(_ask(limited)) == "AuthFailure"


def test_a_host_that_is_not_ours_is_refused_in_xml(keys: KEYS) -> None:
    answer = Client().post("/ec2/", data="", content_type="text/plain", headers={"Host": "evil.example"})
    assert (_code(answer), answer.status_code) == ("MalformedQueryString", 400)
    other = Client().get("/identity/v3", headers={"Host": "evil.example"})
    assert (other.status_code, other.json()["error"]["code"]) == (400, 400)


def test_other_methods_and_bodies_without_end_are_refused_in_xml() -> None:
    answer = Client().put("/ec2/")
    assert (_code(answer), answer.status_code, answer["Allow"]) == ("UnsupportedProtocol", 405, "GET, POST")
    kind, content = faults.refusal("/ec2/", 413)
    assert (kind, b"<Code>RequestEntityTooLarge</Code>" in content) == ("text/xml;charset=UTF-8", True)


@each_row(
    ("parameters", "code"),
    [
        ({"Action": "LaunchRocket"}, "InvalidAction"),
        ({"Action": "CreateFleet"}, "InvalidAction"),
        ({"Action": ""}, "MissingParameter"),
        ({"Version": ""}, "MissingParameter"),
        ({"Version": "2031-01-01"}, "NoSuchVersion"),
        ({"Version": "newest"}, "NoSuchVersion"),
        ({"DryRun": "true"}, "DryRunOperation"),
        ({"DryRun": "perhaps"}, "InvalidParameterValue"),
        ({"Colour": "red"}, "UnknownParameter"),
        ({"Filter.1.Name": "colour", "Filter.1.Value.1": "red"}, "InvalidParameterValue"),
        ({"Filter.1.Value.1": "red"}, "MissingParameter"),
        ({"Filter.1.Name": "region-name"}, "InvalidParameterValue"),
        ({"RegionName.1": "mars"}, "InvalidParameterValue"),
        ({"RegionName.1": "\x01"}, "InvalidCharacter"),
    ],
)
def test_wrong_requests_have_the_codes_of_ec2(keys: KEYS, parameters: dict[str, str], code: str) -> None:
    answer = _ask(keys, **parameters)
    assert (_code(answer), answer.status_code) == (code, 412 if code == "DryRunOperation" else 400)


def test_doubled_and_countless_parameters_are_refused_before_anybody_is_looked_up(
    keys: KEYS, django_assert_num_queries: Any
) -> None:
    body = urlencode([("Action", "DescribeRegions"), ("Version", "2016-11-15"), ("Version", "2016-11-15")])
    many = "&".join(f"Filter.{number}.Name=a" for number in range(5000))
    with django_assert_num_queries(0):
        assert _code(_post(body, _signed(keys, body))) == "MalformedQueryString"
        assert _code(_post(many, _signed(keys, many))) == "MalformedQueryString"


def test_filters_are_bounded(alice: Any) -> None:
    for given in ([{"Name": "region-name", "Values": ["a"]}] * 51, [{"Name": "region-name", "Values": ["a"] * 201}]):
        with pytest.raises(ClientError) as error:
            alice.describe_regions(Filters=given)
        assert code_of(error) == "FilterLimitExceeded"


def test_parameters_of_a_post_stand_in_its_body(keys: KEYS) -> None:
    body = urlencode({"Action": "DescribeRegions", **VERSION})
    headers = _signed(keys, body)
    kind = headers.pop("Content-Type")
    assert _code(Client().post("/ec2/?MaxResults=5", data=body, content_type=kind, headers=headers)) == (
        "MalformedQueryString"
    )


def test_readers_read_and_change_nothing(bob: Any) -> None:
    assert bob.describe_tags()["Tags"] == []
    with pytest.raises(ClientError) as error:
        bob.create_tags(Resources=["i-12345678"], Tags=[{"Key": "a", "Value": "b"}], DryRun=True)
    assert code_of(error) == "UnauthorizedOperation"
    assert not Ec2Tag.objects.exists()


def test_nothing_else_is_below_the_endpoint(client: Client) -> None:
    for answer, status in ((client.post("/ec2/castles"), 404), (client.put("/ec2/"), 405)):
        assert (answer.status_code, _root(answer).findtext("RequestID")) == (status, answer["X-Openstack-Request-Id"])


def test_keys_that_a_trust_made_are_worth_what_it_is(people: People) -> None:
    made = give(people.alice, people.charlie)
    base = f"/identity/v3/users/{people.charlie.user_id.hex}/credentials/OS-EC2"
    pair = with_token(token(people.charlie, made)).post(base, {"tenant_id": people.alice.project_id.hex})
    keys = (pair.json()["credential"]["access"], pair.json()["credential"]["secret"])
    assert _ask(keys).status_code == 200
    remove_role(people.alice.user, people.alice.project, "member")
    assert _code(_ask(keys)) == "AuthFailure"
