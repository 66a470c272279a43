"""The Security Token Service, at the address of the EC2 API: who asks."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config

from provisioning.identity.models import Credential
from tests.ec2_api.conftest import URL, _send, refused
from tests.support.cast import People

pytestmark = pytest.mark.django_db


def client(service: str, keys: tuple[str, str], signed_for: str = "sts") -> Any:
    config = Config(retries={"max_attempts": 0})
    pair = {"aws_access_key_id": keys[0], "aws_secret_access_key": keys[1]}
    made = boto3.client(service, region_name="RegionOne", endpoint_url=URL, config=config, **pair)
    made.meta.events.register(f"before-send.{service}", _send)
    made._request_signer._signing_name = signed_for
    return made


def test_the_caller_is_the_owner_of_what_ec2_shows(people: People, key_pairs: Any, alice: Any) -> None:
    sts = client("sts", key_pairs[people.alice.user_id])
    result = sts.get_caller_identity()
    account = people.alice.project_id.hex
    assert (result["Account"], result["UserId"]) == (account, people.alice.user_id.hex)
    assert result["Arn"] == f"arn:aws:iam::{account}:user/{people.alice.user.name}"
    group = alice.create_security_group(GroupName="web", Description="web")["GroupId"]
    pair = [{"GroupId": group, "UserId": account}]
    rule = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "UserIdGroupPairs": pair}
    alice.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    (shown,) = alice.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    users = {each["UserId"] for each in shown["IpPermissions"][0]["UserIdGroupPairs"]}
    assert {shown["OwnerId"], *users} == {account}
    (ingress,) = [
        each
        for each in alice.describe_security_group_rules()["SecurityGroupRules"]
        if each["GroupId"] == group and not each["IsEgress"]
    ]
    assert (ingress["GroupOwnerId"], ingress["ReferencedGroupInfo"]["UserId"]) == (account, account)


def test_what_is_not_there_and_wrong_keys_are_refused_with_its_own_message(people: People, key_pairs: Any) -> None:
    keys = key_pairs[people.alice.user_id]
    assert refused(client("sts", keys).get_session_token) == "InvalidAction"
    assert refused(client("sts", (keys[0], "wrong")).get_caller_identity) == "AuthFailure"
    assert refused(client("sts", keys, "ec2").get_caller_identity) == "SignatureDoesNotMatch"
    Credential.objects.all().delete()
    assert refused(client("sts", keys).get_caller_identity) == "AuthFailure"
