"""The rights of a storage daemon: its account, its system calls, its folders, and the address that it listens at."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.volume import VolumeClient
from compute_agent.virt.driver import never
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.processes import confine, storage_account
from compute_agent.virt.processes.rights import Rights
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons import daemon_process
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.daemon_process import MOST_CONNECTIONS
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from tests.agent.volumes.conftest import MIB, Pool, own_ports, qemu_io
from tests.agent.volumes.test_drivers import CLIENT, delete_snapshot, kill, snapshot, uri

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account"), pytest.mark.slow]
ENTRY = pwd.getpwnam("nobody")
NOBODY = StorageAccount("nobody", ENTRY.pw_uid, ENTRY.pw_gid)
EVERY = "0.0.0.0"  # noqa: S104 - where packets for the host's address come with another one
REMOTE = VolumeClient(attachment_id="r", host_id="h", local=False)


@pytest.fixture
def hidden() -> Iterator[Path]:
    """A folder that only root can enter, with the pool below it."""
    folder = Path(tempfile.mkdtemp(prefix="nv-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def pool(short: Path, hidden: Path) -> Iterator[Pool]:
    place = hidden / "a" / "pool"
    driver = drivers.make(PoolSettings("local", "nbd", str(place), "host-1", account=NOBODY))
    daemons = Daemons(
        short / "run", short / "sockets", Address(lambda: "127.0.0.1"), short / "kept", Rights(NOBODY, [place])
    )
    short.chmod(0o711)
    yield Pool(driver, daemons, place, driver.prepare())
    daemons.end_all()


def status(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def pid_of(pool: Pool, volume_id: str) -> int:
    pid = daemon_process.running(pool.daemons.runtime / volume_id)
    assert pid is not None
    return pid


def test_a_daemon_has_an_account_of_its_own_and_no_rights(pool: Pool) -> None:
    volume = pool.make()
    reach = uri(pool, volume)
    about = status(pid_of(pool, volume.id))
    assert set(about["Uid"]) == {str(NOBODY.uid)}
    assert set(about["Gid"]) == {str(NOBODY.gid)}
    assert about["Groups"] == []
    assert {about[name][0].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert about["NoNewPrivs"] == ["1"]
    assert about["Seccomp"] == ["2"]
    assert "failed" not in qemu_io(reach, f"write -P 1 0 {MIB}", f"read -P 1 0 {MIB}")


def test_a_confined_daemon_does_all_that_volumes_need(pool: Pool) -> None:
    volume = pool.make()
    reach = uri(pool, volume)
    qemu_io(reach, f"write -P 1 0 {MIB}")
    for name in ("s1", "s2"):
        snapshot(pool, volume, name)
        qemu_io(reach, f"write -P 2 {MIB} {MIB}")
    delete_snapshot(pool, volume, "s1")
    delete_snapshot(pool, volume, "s2")
    clone = pool.spec(2)
    snapshot(pool, volume, "s3")
    pool.driver.create_from_snapshot(clone, volume.id, "s3")
    other = uri(pool, clone)
    assert "failed" not in qemu_io(other, f"read -P 1 0 {MIB}", f"write -P 3 0 {MIB}")
    with pool.daemons.opened(clone.id) as daemon:
        pool.driver.flatten(clone, daemon, never, everything=True)
    assert pool.driver.depth(clone.id) == 0
    kill(pool, volume)
    assert uri(pool, volume) == reach
    assert "failed" not in qemu_io(reach, f"read -P 1 0 {MIB}", f"read -P 2 {MIB} {MIB}")
    with pool.daemons.serving("copy", pool.driver.snapshot_opening(volume, "s3"), read_only=True) as socket:
        assert "failed" not in qemu_io(f"nbd+unix:///copy?socket={socket}", f"read -P 1 0 {MIB}", read_only=True)


def test_a_confined_daemon_opens_what_an_earlier_agent_created_as_root(pool: Pool, short: Path) -> None:
    place = pool.folder
    earlier = drivers.make(PoolSettings("local", "nbd", str(place), "host-1"))
    volume = pool.spec()
    earlier.create(volume)
    assert (place / "volumes" / volume.id / "1.qcow2").stat().st_uid == 0
    assert "failed" not in qemu_io(uri(pool, volume), f"write -P 1 0 {MIB}")
    root = Daemons(short / "run", short / "sockets", Address(lambda: "127.0.0.1"), short / "kept")
    pool.daemons.disconnect(volume.id)
    reach = root.connect(earlier, volume, [CLIENT])
    before = pid_of(pool, volume.id)
    assert pool.daemons.connect(pool.driver, volume, [CLIENT]) == reach  # the running one is kept
    assert pid_of(pool, volume.id) == before


def test_a_pool_where_root_may_not_give_files_away_is_served_by_root(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    volume = pool.make()
    monkeypatch.setattr("compute_agent.virt.processes.storage_account.os.chown", refused)
    assert pool.driver.opening(volume).as_root
    monkeypatch.undo()
    assert not pool.driver.opening(volume).as_root


def test_a_daemon_changes_nothing_that_the_agent_reads(pool: Pool) -> None:
    volume = pool.make()
    uri(pool, volume)
    folders = [pool.daemons.runtime / volume.id, pool.daemons.sockets, *(pool.folder / "volumes").rglob("*")]
    for path in (path for folder in folders for path in (folder, folder.parent)):
        about = path.stat()
        if path.is_dir():
            assert about.st_uid != NOBODY.uid
            assert not about.st_mode & 0o022 or about.st_mode & 0o1000
    assert {path.name for path in (pool.daemons.runtime / volume.id).iterdir() if path.stat().st_uid == NOBODY.uid} == {
        "pid"
    }


TRY = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def error_of(result):
    return ctypes.get_errno() if result == -1 else 0
found = {"unshare": error_of(libc.unshare(0x10000000)), "mount": error_of(libc.mount(b"x", b"/", b"tmpfs", 0, None)),
         "ptrace": error_of(libc.ptrace(0, 0, 0, 0)), "setuid": error_of(libc.setuid(0)),
         "key": error_of(libc.syscall(250, 0, 0, 0, 0))}
for family in (17, 38, 40):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_STREAM)
    except OSError as error:
        found[f"family {family}"] = error.errno
found["tree"] = sorted(os.listdir("%s")) if os.path.exists("%s") else None
print(json.dumps(found))
"""


def test_system_calls_and_folders_are_out_of_reach(hidden: Path) -> None:
    (hidden / "pool").mkdir()
    (hidden / "secret").touch()
    (hidden / "pool").chmod(0o755)
    (hidden / "pool" / "layer").touch()
    rights = Rights(NOBODY, [hidden / "pool"])
    script = TRY % (hidden / "pool", hidden / "pool")
    done = subprocess.run([*rights.command, "/usr/bin/python3", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result.pop("tree") == ["layer"]
    assert result == dict.fromkeys(result, confine.EPERM)
    assert len(result) == 8
    assert subprocess.run([*rights.command, "cat", str(hidden / "secret")], capture_output=True).returncode != 0


def test_a_confined_program_can_run_no_other_one(pool: Pool) -> None:
    script = "/bin/true || echo refused; exec /bin/true"
    for rights in (Rights(NOBODY), Rights()):
        done = subprocess.run([*rights.command, "/bin/sh", "-c", script], capture_output=True, text=True)
        assert done.stdout == "refused\n"
        assert done.returncode != 0


def test_a_confined_program_ends_with_the_one_that_started_it() -> None:
    words = [*Rights(NOBODY).command, "/bin/cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(b"x")
        assert started.stdout.read(1) == b"x", "it runs"
        started.kill()
        assert started.stdout.read() == b"", "nobody has its output open any more"


def test_limits_and_exit_codes_are_those_of_the_program() -> None:
    rights = Rights(NOBODY, limits={"FSIZE": 0})
    done = subprocess.run([*rights.command, "/bin/sh", "-c", "ulimit -f; exit 7"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("0\n", 7)


@pytest.fixture
def certificates(tmp_path: Path) -> HostCertificates:
    folder = tmp_path / "tls"
    folder.mkdir()
    for role, words in {"ca": [], "server": ["-CA", f"{folder}/ca-cert.pem", "-CAkey", f"{folder}/ca-key.pem"]}.items():
        constraint = f"basicConstraints=critical,CA:{'FALSE' if words else 'TRUE'}"
        subprocess.run(
            ["openssl", "req", "-x509", *words, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", f"/CN={role}", "-addext", constraint, "-days", "2",
             "-keyout", f"{folder}/{role}-key.pem", "-out", f"{folder}/{role}-cert.pem"],
            check=True, capture_output=True,
        )  # fmt: skip

    class Certificates:
        complete, tls_hostname = True, "server"

    host_certificates: Any = Certificates()
    host_certificates.folder = folder
    return host_certificates


@pytest.mark.parametrize(("reached", "address"), [("127.0.0.3", "127.0.0.3"), ("192.0.2.77", EVERY), ("::1", "::1")])
def test_a_daemon_listens_at_the_address_of_its_host_alone(
    pool: Pool, certificates: HostCertificates, reached: str, address: str
) -> None:
    daemons = pool.daemons
    daemons._address = Address(lambda: reached, certificates, own_ports(21_809, 90))
    volume = pool.make()
    connection = daemons.connect(pool.driver, volume, [REMOTE])
    pid = pid_of(pool, volume.id)
    output = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    heard = [line.split()[3] for line in output.splitlines() if f"pid={pid}," in line]
    expected = f"[{address}]" if ":" in address else address
    assert heard == [f"{expected}:{connection.port}"]
    assert status(pid)["Uid"][0] == str(NOBODY.uid)


def test_the_account_is_the_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_account.choose("root") is None
    assert storage_account.choose("nobody") == NOBODY
    with pytest.raises(ValueError, match="novella-nobody-has"):
        storage_account.choose("novella-nobody-has")


def test_connections_are_bounded(pool: Pool) -> None:
    volume = pool.make()
    uri(pool, volume)
    assert 0 < MOST_CONNECTIONS <= 100
    command = Path(f"/proc/{pid_of(pool, volume.id)}/cmdline").read_bytes()
    assert f"max-connections={MOST_CONNECTIONS}".encode() in command


def test_the_socket_of_a_copy_has_a_path_as_short_as_a_volumes(pool: Pool) -> None:
    volume, name = pool.make(1), f"image-{uuid.uuid4()}-c8418a84"
    with pool.daemons.serving(name, pool.driver.opening(volume), read_only=True) as socket:
        assert len(socket.parent.name) <= len(volume.id)
