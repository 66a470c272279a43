"""Certificates of hosts: under whose name they are, when they are renewed, and how another authority follows."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.core.management import CommandError, call_command
from django.utils import timezone

from compute_agent.contract.certificates import Certificate, CertificateRequest, digest_of
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.doctor.checks.certificates import authority_of_hosts, certificates_that_are_not_renewed
from provisioning.hosts import certificates
from provisioning.hosts.models import CertificateAuthority, Host, HostCertificate
from provisioning.identity.encryption import keys

pytestmark = pytest.mark.django_db

KEY = ec.generate_private_key(ec.SECP256R1())


def request_by(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, name: str = "x") -> str:
    names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    requested = x509.SubjectAlternativeName([x509.DNSName(f"{name}.host.novella")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(names).add_extension(requested, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


REQUEST = CertificateRequest(server=request_by(KEY), client=request_by(KEY))


def issue(host: Host, request: CertificateRequest = REQUEST) -> Certificate:
    given = certificates.issue(host.id, request)
    assert given is not None
    return given


def digest(given: Certificate) -> str:
    return digest_of(given.ca, given.server, given.client)


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="h1", connected=True, last_seen_at=timezone.now())


def test_a_host_gets_certificates_in_its_own_name_whatever_it_asks_for(host: Host) -> None:
    other = str(uuid.uuid4())
    given = issue(host, CertificateRequest(server=request_by(KEY, other), client=request_by(KEY, other)))
    authority = x509.load_pem_x509_certificate(given.ca.encode())
    for pem, purpose in (
        (given.server, ExtendedKeyUsageOID.SERVER_AUTH),
        (given.client, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        certificate = x509.load_pem_x509_certificate(pem.encode())
        certificate.verify_directly_issued_by(authority)
        assert certificate.subject.rfc4514_string() == f"CN={host.id}"
        assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert certificate.not_valid_before_utc < timezone.now() - timedelta(hours=23)  # clocks may be behind
        assert other not in pem
    names = x509.load_pem_x509_certificate(given.server.encode()).extensions
    assert names.get_extension_for_class(x509.SubjectAlternativeName).value == x509.SubjectAlternativeName(
        [x509.DNSName(f"{host.id}.host.novella")]
    )


@pytest.mark.parametrize("bad", ["", "nonsense", request_by(rsa.generate_private_key(65537, 2048)), "x" * 100_000])
def test_what_is_no_request_by_a_good_key_is_refused(host: Host, bad: str) -> None:
    with pytest.raises(InvalidInputError):
        certificates.issue(host.id, CertificateRequest(server=bad, client=REQUEST.client))
    assert not HostCertificate.objects.exists()


def test_a_host_that_is_forgotten_gets_none(host: Host) -> None:
    issue(host)
    host_id = host.id
    host.delete()
    assert certificates.issue(host_id, REQUEST) is None
    assert not HostCertificate.objects.exists()


@pytest.mark.both_databases("locks")
def test_hosts_are_asked_when_they_have_not_what_they_should_have(host: Host) -> None:
    assert not certificates.due(host.id, None)  # an older agent, or a simulated one
    assert certificates.due(host.id, "")
    given = issue(host)
    assert not certificates.due(host.id, digest(given))
    assert certificates.due(host.id, "")  # it has lost them
    HostCertificate.objects.update(issued_at=timezone.now() - certificates.RENEW_AFTER)
    assert certificates.due(host.id, digest(given))


def test_the_key_of_the_authority_is_encrypted_and_taken_over_by_a_new_key(host: Host) -> None:
    issue(host)
    kept = CertificateAuthority.objects.get()
    assert "PRIVATE" not in kept.key
    keys.CREDENTIALS.add()
    assert certificates.encrypt_again(keys.CREDENTIALS.newest()) == (1, [])
    issue(host)
    CertificateAuthority.objects.update(key=Fernet(Fernet.generate_key()).encrypt(b"lost").decode())
    assert certificates.encrypt_again(keys.CREDENTIALS.newest()) == (0, [str(kept.id)])
    assert [each.evidence for each in authority_of_hosts()] == ["key"]


def test_an_authority_is_followed_by_another_with_a_time_in_which_both_are_trusted(host: Host) -> None:
    first = issue(host)
    certificates.begin()
    with pytest.raises(ConflictError):
        certificates.begin()
    with pytest.raises(ConflictError):
        certificates.switch()  # the host is there and does not know the next one
    assert certificates.due(host.id, digest(first))
    both = issue(host)
    assert both.ca.startswith(first.ca)
    assert len(both.ca) > len(first.ca)
    with pytest.raises(ConflictError):
        certificates.finish()
    assert certificates.switch() == []
    new = certificates.trusted()
    with pytest.raises(CommandError):
        call_command("rotate_host_authority", "finish")  # its certificates are signed by the old one
    second = issue(host)
    current = x509.load_pem_x509_certificates(new.encode())[0]
    x509.load_pem_x509_certificate(second.server.encode()).verify_directly_issued_by(current)
    certificates.finish()
    assert certificates.due(host.id, digest(second))
    assert certificates.hosts_behind() == ["h1"]
    assert first.ca not in issue(host).ca
    assert CertificateAuthority.objects.get().state == certificates.CURRENT


def test_the_doctor_sees_what_is_not_renewed_and_an_authority_that_ends(host: Host) -> None:
    issue(host)
    assert not [*certificates_that_are_not_renewed(), *authority_of_hosts()]
    HostCertificate.objects.update(issued_at=timezone.now() - 2 * certificates.RENEW_AFTER)
    CertificateAuthority.objects.update(ends_at=timezone.now() + timedelta(days=100))
    assert [each.severity for each in certificates_that_are_not_renewed()] == ["warning"]
    HostCertificate.objects.update(ends_at=timezone.now())
    assert [each.severity for each in certificates_that_are_not_renewed()] == ["error"]
    assert [each.evidence for each in authority_of_hosts()] == ["ends"]
