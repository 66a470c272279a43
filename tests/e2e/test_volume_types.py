"""What types of volumes promise, with real guests and the unmodified client: secrecy, limits, several servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.support.one_machine import OneMachine, wait_for
from tests.support.terminal import Terminal, sitting_down

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.libvirt,
    pytest.mark.timeout(1200),  # several guests boot one after the other
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
TYPES = {
    "secret": [
        *("--encryption-provider", "luks", "--encryption-cipher", "aes-xts-plain64", "--encryption-key-size", "256"),
        *("--encryption-control-location", "front-end"),
    ],
    "shared": ["--multiattach"],
    "slow": [],
}
WORDS = b"readable words of a guest"
WRITES = f"yes '{WORDS.decode()}' | dd of=/dev/{{0}} bs=64k count=16 iflag=fullblock conv=fsync 2>/dev/null"
READS = "echo 3 >/proc/sys/vm/drop_caches; head -n 9000 /dev/{0} | sort -u"


@pytest.fixture
def user(cloud: OneMachine, key: Key) -> Iterator[Terminal]:
    """Somebody who finds the types that an operator has made."""
    for name, more in TYPES.items():
        cloud.openstack("volume", "type", "create", *more, name, cloud="admin")
    cloud.openstack("volume", "qos", "create", "--property", "total_iops_sec=5000", "limits", cloud="admin")
    cloud.openstack("volume", "qos", "associate", "limits", "slow", cloud="admin")
    yield from sitting_down(cloud, key.private, key.public)
    cloud.openstack("volume", "type", "delete", *TYPES, cloud="admin")
    cloud.openstack("volume", "qos", "delete", "limits", cloud="admin")


def folders(user: Terminal) -> list[Path]:
    """Where the storage host has the volumes of its pool."""
    return [*user.cloud.data.glob("hosts/*/volumes/volumes/*")]


def kept(folder: Path) -> bytes:
    """What a folder of the pool has."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def limits(user: Terminal, server: str) -> list[int]:
    """The limits of operations in libvirt's own record of a guest that runs."""
    [path] = [path for path in user.cloud.data.glob("hosts/*/libvirt/run/qemu/*.xml") if server in path.read_text()]
    return [int(number) for number in re.findall(r"<total_iops_sec>(\d+)<", path.read_text())]


def test_what_types_promise(user: Terminal) -> None:
    first, second = user.launch("first"), user.launch("second")
    secret, plain = user.volume("secret", "--type", "secret"), user.volume("plain")
    user.attach("first", "secret")
    user.attach("first", "plain")
    user.guest("first", f"{WRITES.format('vdb')} && {WRITES.format('vdc')}")
    assert user.status("volume", "secret", "in-use").is_encrypted
    assert {folder.name: WORDS in kept(folder) for folder in folders(user)} == {secret: False, plain: True}
    assert "migration policy is never" in user.refused("volume", "set", "--type", "secret", "plain")
    for name in ("secret", "plain"):
        user.detach("first", name)
    user.openstack("volume", "set", "--type", "secret", "--migration-policy", "on-demand", "plain")
    wait_for("it is encrypted", lambda: user.status("volume", "plain", "available").volume_type == "secret")
    wait_for("the old data has gone", lambda: len(folders(user)) == 2)
    assert [WORDS in kept(folder) for folder in folders(user)] == [False, False]
    user.attach("second", "secret")
    user.attach("second", "plain")
    seen = [user.guest("second", READS.format(device)).strip() for device in ("vdb", "vdc")]
    assert seen == [WORDS.decode()] * 2

    user.volume("limited", "--type", "slow")
    user.attach("first", "limited")
    assert limits(user, first) == [5000]
    user.openstack("volume", "qos", "set", "--property", "total_iops_sec=700", "limits", cloud="admin")
    wait_for("the guest is slower", lambda: limits(user, first) == [700])
    user.openstack("volume", "set", "--type", "__DEFAULT__", "limited")
    wait_for("the guest has no limit", lambda: limits(user, first) == [])
    user.detach("first", "limited")

    user.volume("both", "--type", "shared")
    assert "is in-use" in user.refused("server", "add", "volume", "first", "secret")
    for server, ident in (("first", first), ("second", second)):
        user.openstack("server", "add", "volume", server, "both")
        wait_for(f"{server} has it", lambda ident=ident: ident in attached_to(user, "both"))
    user.guest("first", "echo from the first | dd of=/dev/vdb conv=sync,fsync 2>/dev/null")
    look = "echo 3 >/proc/sys/vm/drop_caches; head -n 1 /dev/vdd"
    assert user.guest("second", look) == "from the first\n"
    user.openstack("server", "remove", "volume", "first", "both")
    wait_for("it is the second's alone", lambda: attached_to(user, "both") == [second])
    assert user.guest("second", "head -n 1 /dev/vdd") == "from the first\n"


def attached_to(user: Terminal, volume: str) -> list[str]:
    """The servers that have a volume, when all of it is done."""
    result = user.sdk.block_storage.find_volume(volume, ignore_missing=False)
    return [each["server_id"] for each in result.attachments] if result.status == "in-use" else []


STRANGER = ("--os-username", "stranger", "--os-password", "stranger-pass-1", "--os-project-name", "elsewhere")


@pytest.fixture
def stranger(cloud: OneMachine) -> Iterator[tuple[str, ...]]:
    """How the client is told to be somebody of another project."""
    cloud.openstack("project", "create", "elsewhere", cloud="admin")
    cloud.openstack("user", "create", "--password", STRANGER[3], STRANGER[1], cloud="admin")
    cloud.openstack("role", "add", "--user", "stranger", "--project", "elsewhere", "member", cloud="admin")
    yield STRANGER
    cloud.openstack("user", "delete", "stranger", cloud="admin")
    cloud.openstack("project", "delete", "elsewhere", cloud="admin")


def test_a_volume_goes_to_another_project(user: Terminal, stranger: tuple[str, ...]) -> None:
    """By its key alone; until then nobody else finds it, and nobody can copy it."""
    volume = user.volume("given")
    for command in (("show",), ("delete",), ("set", "--size", "2"), ("create", "--source")):
        assert "No Volume found" in user.refused(*stranger, "volume", *command, volume)
    offer = user.json("volume", "transfer", "request", "create", "given")
    accept = (*stranger, "volume", "transfer", "request", "accept", "--auth-key")
    assert "key" in user.refused(*accept, "0123456789abcdef", offer["id"])
    taken = user.json(*accept, offer["auth_key"], offer["id"])
    assert taken["volume_id"] == volume
    assert volume not in user.all_of("volume")
    user.openstack(*stranger, "volume", "delete", volume)
    assert "minimum of 1" in user.refused("volume", "create", "--size", "0", "nothing")
