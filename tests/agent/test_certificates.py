"""The host's certificates: keys that stay, files that QEMU finds, and what the portal is told of them."""

import os
import stat
from pathlib import Path

import pytest

from compute_agent.contract.certificates import Certificate, digest_of
from compute_agent.virt.machine.certificates import HostCertificates

GIVEN = Certificate(host_id="7c1", server="server\n", client="client\n", ca="ca\n")


@pytest.fixture
def certificates(tmp_path: Path) -> HostCertificates:
    return HostCertificates(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_requests_are_made_by_keys_that_stay(certificates: HostCertificates) -> None:
    first = certificates.request()
    keys = [(certificates.folder / f"{role}-key.pem").read_bytes() for role in ("server", "client")]
    assert first.server.startswith("-----BEGIN CERTIFICATE REQUEST-----")
    assert keys[0] != keys[1]
    certificates.request()
    assert keys == [(certificates.folder / f"{role}-key.pem").read_bytes() for role in ("server", "client")]


def test_what_is_reserved_is_what_is_reported(certificates: HostCertificates) -> None:
    assert certificates.digest() == certificates.tls_hostname == ""
    certificates.request()
    assert not certificates.complete
    certificates.store(GIVEN)
    assert certificates.digest() == digest_of("ca\n", "server\n", "client\n")
    assert certificates.tls_hostname == "7c1.host.novella"
    (certificates.folder / "client-key.pem").unlink()
    assert not certificates.complete


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to a group")
def test_guests_read_the_key_of_the_client_and_not_that_of_the_server(certificates: HostCertificates) -> None:
    certificates.folder.mkdir()
    os.chown(certificates.folder, 0, 12345)
    certificates.request()
    certificates.store(GIVEN)
    client, server = (certificates.folder / f"{role}-key.pem" for role in ("client", "server"))
    assert (mode(client), client.stat().st_gid) == (0o640, 12345)
    assert (mode(server), server.stat().st_uid) == (0o600, 0)
    os.chown(certificates.folder, 0, 12346)  # guests have another account now
    certificates.digest()
    assert client.stat().st_gid == 12346
