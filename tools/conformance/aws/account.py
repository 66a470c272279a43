"""The address of a cloud's EC2 API, and keys for it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keystoneauth1.exceptions.base import ClientException
from openstack.config.cloud_region import CloudRegion
from openstack.connection import Connection

from tools.bench.cloud import BenchError
from tools.conformance import cloud

KEPT_VARIABLES = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Account:
    """A user's access to the EC2 API, and the parameters of launches."""

    url: str
    region: str
    access: str
    secret: str
    image: str
    """The name of an image."""
    root_size: int
    """The size of root volumes in GiB."""
    types: tuple[str, str]
    """Names of two sizes, the smaller one first."""

    def variables(self, home: Path) -> dict[str, str]:
        """Return the environment of a client that must not use other settings of this machine."""
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return kept | {
            "HOME": str(home),
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def account(place: CloudRegion) -> Account:
    """Sign in, create EC2 credentials, and choose the parameters of launches.

    Raises BenchError if the cloud has no EC2 API.
    """
    import boto3  # noqa: PLC0415 - of the tests' packages

    connection = Connection(config=place)
    session = connection.session
    region = place.get_region_name("ec2") or "RegionOne"
    try:
        url = session.get_endpoint(service_type="ec2", region_name=region)
        if not url:
            raise BenchError("the catalog has no endpoint of ec2")
        identity = str(session.get_endpoint(service_type="identity")).rstrip("/").removesuffix("/v3")
        path = f"{identity}/v3/users/{session.get_user_id()}/credentials/OS-EC2"
        made = session.post(path, json={"tenant_id": session.get_project_id()}).json()["credential"]
    except ClientException as error:
        raise BenchError(str(error)) from error
    finally:
        connection.close()
    ec2 = boto3.client(
        "ec2", endpoint_url=url, region_name=region,
        aws_access_key_id=made["access"], aws_secret_access_key=made["secret"],
    )  # fmt: skip
    images = ec2.describe_images()["Images"]
    sizes = sorted(ec2.describe_instance_types()["InstanceTypes"], key=lambda one: one["MemoryInfo"]["SizeInMiB"])
    if not images or len(sizes) < 2:
        raise BenchError("an image and two sizes are needed")
    names = (sizes[0]["InstanceType"], sizes[1]["InstanceType"])
    disks = [
        each["Ebs"]["VolumeSize"] for each in images[0]["BlockDeviceMappings"] if "VolumeSize" in each.get("Ebs", {})
    ]
    return Account(url, region, made["access"], made["secret"], images[0]["Name"], max([2, *disks]), names)


@contextmanager
def chosen(name: str) -> Iterator[Account]:
    """Yield an account: of a cloud in clouds.yaml, of the ``OS_`` variables, or of a new cloud."""
    with ExitStack() as stack:
        if name or cloud.wanted_by_variables():
            place, _ = cloud.named(name or os.environ.get("OS_CLOUD") or "envvars")
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nv-conformance-")))
            place = cloud.own_region(stack.enter_context(cloud.own(folder / "cloud", real=False)), "demo")
        yield account(place)


def main(
    program: str,
    about: str,
    arguments: Sequence[str],
    more: Callable[[argparse.ArgumentParser], None],
    check: Callable[[argparse.Namespace], None],
    run: Callable[[Account, Path, argparse.Namespace], list[str]],
) -> int:
    """Read the command line, run a client in an empty folder, and print the errors."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument(
        "--cloud", default="", metavar="NAME", help="a cloud of clouds.yaml; envvars: the OS_ variables"
    )
    more(parser)
    given = parser.parse_args(arguments)
    try:
        check(given)
        with tempfile.TemporaryDirectory(prefix="nv-conformance-") as folder, chosen(given.cloud) as found:
            wrong = run(found, Path(folder), given)
    except BenchError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    print("\n".join(wrong) if wrong else f"{program}: everything is as it should be.")
    return 1 if wrong else 0
