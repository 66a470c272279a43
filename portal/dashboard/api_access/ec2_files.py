"""Configuration of AWS clients for this cloud: the two files of ``~/.aws``, ``ec2rc.sh``, and a program."""

import re
import shlex
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest

from portal.common.http.public_url import public_url
from portal.dashboard.copy_as.client_files import CLOUD
from provisioning.identity.records.catalog import PATHS

PROFILE = CLOUD
"""The profile's name in the files."""
_NO_REGION = re.compile(r"[^A-Za-z0-9-]+")
_LEFT_OVER = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_REGION")
"""Environment variables that another sign-in may have set, and that would conflict with the variables in ``ec2rc.sh``.
"""
_PROGRAM = f"""\
import boto3

ec2 = boto3.Session(profile_name="{PROFILE}").client("ec2")

for reservation in ec2.describe_instances()["Reservations"]:
    for instance in reservation["Instances"]:
        print(instance["InstanceId"], instance["State"]["Name"])
"""


@dataclass(frozen=True, slots=True)
class Ec2Files:
    """The files as texts; ``credentials`` and ``ec2rc`` contain the secret."""

    config: str
    credentials: str
    ec2rc: str
    program: str


def endpoint(request: HttpRequest) -> str:
    """Return the address of the EC2 API, as in the catalog."""
    return public_url(request) + PATHS["ec2"]


def region() -> str:
    """Return the cloud's region in a form that AWS clients accept, because they reject a name that is not valid in a
    host name.
    """
    return _NO_REGION.sub("-", settings.REGION).strip("-")[:63] or CLOUD


def files(request: HttpRequest, access: str, secret: str) -> Ec2Files:
    """Return the files of one EC2 credential."""
    address = endpoint(request)
    variables = {
        "EC2_ACCESS_KEY": access,
        "EC2_SECRET_KEY": secret,
        "EC2_URL": address,
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": address,
        "AWS_DEFAULT_REGION": region(),
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return Ec2Files(
        config=f"[profile {PROFILE}]\nregion = {region()}\nendpoint_url = {address}\n",
        credentials=f"[{PROFILE}]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n",
        ec2rc=f"unset {' '.join(_LEFT_OVER)}\n{exports}",
        program=_PROGRAM,
    )
