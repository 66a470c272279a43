"""A day's work on real guests by the ``aws`` command and boto3, and what the ``openstack`` client sees of each step."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.conftest import Key
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, wait_for
from tests.support.terminal import KEY, Terminal, sitting_down

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.libvirt,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
METADATA = "http://169.254.169.254/latest"


class Aws:
    """Both clients of one pair of keys, which the ``openstack`` client has made."""

    def __init__(self, user: Terminal) -> None:
        made = user.json("ec2", "credentials", "create")
        self.access = str(made["access"])
        (endpoint,) = {
            each["url"]
            for service in user.json("catalog", "list")
            if service["Type"] == "ec2"
            for each in service["Endpoints"]
        }
        self.variables = {
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": str(made["secret"]),
            "AWS_DEFAULT_REGION": "RegionOne",
            "AWS_ENDPOINT_URL": str(endpoint),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_PAGER": "",
            "AWS_MAX_ATTEMPTS": "1",
        }
        self.ec2 = boto3.client(
            "ec2",
            region_name="RegionOne",
            endpoint_url=endpoint,
            aws_access_key_id=self.access,
            aws_secret_access_key=str(made["secret"]),
        )

    def run(self, *arguments: str) -> Any:
        """Run ``aws ec2 …``; what it said, in JSON."""
        done = subprocess.run(
            [CHECKOUT / ".venv/bin/aws", "ec2", *arguments, "--output", "json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=ENVIRONMENT | self.variables,
            check=False,
        )
        assert done.returncode == 0, f"aws ec2 {' '.join(arguments)}: {done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def wait(self, name: str, option: str, ident: str) -> None:
        self.run("wait", name, option, ident)


@pytest.fixture
def user(cloud: OneMachine, key: Key) -> Iterator[Terminal]:
    yield from sitting_down(cloud, key.private, key.public)


@pytest.fixture
def aws(user: Terminal) -> Iterator[Aws]:
    made = Aws(user)
    yield made
    user.openstack("ec2", "credentials", "delete", made.access)


def _uuid_of(ec2_id: str, uuids: list[str]) -> str:
    """The one whose id EC2 has made of its UUID."""
    digits = ec2_id.partition("-")[2]
    return next(each for each in uuids if each.replace("-", "").startswith(digits))


def _launched(aws: Aws, user: Terminal, tmp_path: Path) -> str:
    """Launch by the command line into a security group that lets SSH in; the instance's id."""
    group = aws.run("create-security-group", "--group-name", "day", "--description", "a day's work")["GroupId"]
    aws.run("authorize-security-group-ingress", "--group-id", group, "--protocol", "tcp", "--port", "22",
            "--cidr", "0.0.0.0/0")  # fmt: skip
    rules = user.json("security", "group", "rule", "list", "day")
    assert [rule["Port Range"] for rule in rules if rule["Direction"] == "ingress"] == ["22:22"]
    (image,) = aws.run("describe-images", "--filters", "Name=name,Values=novella-g*")["Images"]
    (tmp_path / "user-data").write_text("#!/bin/sh\necho day >/run/day\n")
    made = aws.run(
        *("run-instances", "--image-id", image["ImageId"], "--instance-type", "m1.nano", "--key-name", KEY),
        *("--security-group-ids", group, "--user-data", f"file://{tmp_path}/user-data"),
        *("--tag-specifications", "ResourceType=instance,Tags=[{Key=Name,Value=daily},{Key=team,Value=red}]"),
    )
    instance = str(made["Instances"][0]["InstanceId"])
    assert made["Instances"][0]["State"]["Name"] == "pending"
    aws.wait("instance-running", "--instance-ids", instance)
    aws.wait("instance-status-ok", "--instance-ids", instance)
    shown = user.json("server", "show", "daily")
    assert (shown["status"], shown["key_name"]) == ("ACTIVE", KEY)
    assert _uuid_of(instance, [shown["id"]]) == shown["id"]
    assert shown["security_groups"] == [{"name": "day"}]
    return instance


def _metadata_agrees(aws: Aws, user: Terminal, instance: str) -> None:
    """What the guest reads of itself is what the API says of it."""
    (reservation,) = aws.ec2.describe_instances(InstanceIds=[instance])["Reservations"]
    (described,) = reservation["Instances"]
    names = {
        "instance-id": instance,
        "ami-id": described["ImageId"],
        "instance-type": described["InstanceType"],
        "local-ipv4": described["PrivateIpAddress"],
        "reservation-id": reservation["ReservationId"],
        "security-groups": "day",
        "placement/availability-zone": described["Placement"]["AvailabilityZone"],
    }
    read = "; ".join(f"wget -q -O - {METADATA}/meta-data/{name}; echo" for name in names)
    assert user.guest("daily", read).split() == list(names.values())
    assert "echo day" in user.guest("daily", f"wget -q -O - {METADATA}/user-data")


def _volume_and_snapshot(aws: Aws, user: Terminal, instance: str) -> None:
    """A volume is made, attached, written, frozen and taken out; the guest and the other client see each step."""
    zone = aws.run("describe-availability-zones")["AvailabilityZones"][0]["ZoneName"]
    volume = aws.run("create-volume", "--size", "1", "--availability-zone", zone)["VolumeId"]
    aws.wait("volume-available", "--volume-ids", volume)
    aws.run("attach-volume", "--volume-id", volume, "--instance-id", instance, "--device", "/dev/sdf")
    aws.wait("volume-in-use", "--volume-ids", volume)
    (listed,) = user.json("volume", "list")
    assert (listed["Status"], listed["Size"]) == ("in-use", 1)
    assert _uuid_of(volume, [listed["ID"]])
    wait_for(
        "the volume is attached",
        lambda: aws.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"][0]["State"] == "attached",
    )
    user.guest("daily", "D=$(ls /dev/vd[b-z] | head -n 1); busybox mke2fs $D >/dev/null && mount $D /mnt && "
               "echo one >/mnt/words && sync && umount /mnt")  # fmt: skip
    snapshot = aws.ec2.create_snapshot(VolumeId=volume, Description="evening")["SnapshotId"]
    aws.wait("snapshot-completed", "--snapshot-ids", snapshot)
    (frozen,) = user.json("volume", "snapshot", "list")
    assert frozen["Status"] == "available"
    aws.run("detach-volume", "--volume-id", volume)
    aws.wait("volume-available", "--volume-ids", volume)
    copy = aws.ec2.create_volume(SnapshotId=snapshot, AvailabilityZone=zone)["VolumeId"]
    aws.wait("volume-available", "--volume-ids", copy)
    aws.run("delete-snapshot", "--snapshot-id", snapshot)
    wait_for("the snapshot is gone", lambda: not user.json("volume", "snapshot", "list"))
    for each in (copy, volume):
        aws.run("delete-volume", "--volume-id", each)
        aws.wait("volume-deleted", "--volume-ids", each)
    assert user.json("volume", "list") == []


def _stopped_and_started(aws: Aws, user: Terminal, instance: str) -> None:
    """One client stops it, the other starts it."""
    aws.run("stop-instances", "--instance-ids", instance)
    aws.wait("instance-stopped", "--instance-ids", instance)
    assert user.json("server", "show", "daily")["status"] == "SHUTOFF"
    user.openstack("server", "start", "daily")
    aws.wait("instance-running", "--instance-ids", instance)
    assert user.guest("daily", "cat /proc/uptime").strip()
    output = aws.ec2.get_console_output(InstanceId=instance)["Output"]
    assert "login:" in output
    raw = aws.run("get-console-output", "--instance-id", instance)["Output"]
    assert "login:" in raw or "login:" in base64.b64decode(raw).decode(errors="replace")


def _image(aws: Aws, user: Terminal, instance: str) -> None:
    """An image of the instance, which the other client shows and removes."""
    image = aws.run("create-image", "--instance-id", instance, "--name", "evening", "--no-reboot")["ImageId"]
    aws.wait("image-available", "--image-ids", image)
    shown = user.json("image", "show", "evening")
    assert shown["status"] == "active"
    assert _uuid_of(image, [shown["id"]])
    user.openstack("image", "delete", "evening")
    with pytest.raises(ClientError, match=r"InvalidAMIID\.NotFound"):
        aws.ec2.describe_images(ImageIds=[image])


def _ended(aws: Aws, user: Terminal, instance: str) -> None:
    aws.run("terminate-instances", "--instance-ids", instance)
    aws.wait("instance-terminated", "--instance-ids", instance)
    assert user.json("server", "list") == []
    group = aws.ec2.describe_security_groups(GroupNames=["day"])["SecurityGroups"][0]["GroupId"]
    aws.run("delete-security-group", "--group-id", group)
    assert user.sdk.compute.get_limits().absolute.instances_used == 0


def test_a_day_of_ec2(aws: Aws, user: Terminal, tmp_path: Path) -> None:
    """Both views agree after each step, and nothing is left in the evening."""
    assert [region["RegionName"] for region in aws.run("describe-regions")["Regions"]] == ["RegionOne"]
    instance = _launched(aws, user, tmp_path)
    _metadata_agrees(aws, user, instance)
    _volume_and_snapshot(aws, user, instance)
    _stopped_and_started(aws, user, instance)
    _image(aws, user, instance)
    _ended(aws, user, instance)
