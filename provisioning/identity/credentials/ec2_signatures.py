"""Verifies the signatures of AWS clients from the fields that describe a request.

Sources: AWS General Reference, "Signature Version 2 signing process" and "Create a signed AWS API request" (version 4);
S3, "Signing and authenticating REST requests". The fields are named as in the Identity API's ``ec2tokens`` and
``s3tokens``.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from django.utils import timezone
from django.utils.crypto import constant_time_compare

ALGORITHM = "AWS4-HMAC-SHA256"
MOST_OLD = timedelta(minutes=15)
"""Maximum difference between the time of a request and the current time."""
LONGEST_EXPIRY = timedelta(hours=1)
"""Maximum time until the ``Expires`` of a version 2 request, because used signatures are recorded until then."""
_STAMP = "%Y%m%dT%H%M%SZ"
_V2_METHODS = {"HmacSHA256": "sha256", "HmacSHA1": "sha1"}


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request to an EC2 API, as described by the service that received it."""

    access: str
    signature: str
    host: str
    verb: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body_hash: str
    must_sign_host: bool = True
    """Whether the host must be a signed header, as AWS requires and Keystone does not."""

    def is_signed_with(self, secret: str) -> bool:
        """Return whether the request was signed with this secret, in version 2 or 4, within the last 15 minutes."""
        authorization = self.headers.get("authorization", "")
        if authorization.startswith(ALGORITHM) or self.params.get("X-Amz-Algorithm") == ALGORITHM:
            return self._version_4(secret, authorization)
        return self.params.get("SignatureVersion") == "2" and self._version_2(secret)

    @property
    def is_timely(self) -> bool:
        """Return whether the time of the request is valid: not too old, not in the future, not expired."""
        if self.params.get("SignatureVersion") == "2" and ALGORITHM not in self.headers.get("authorization", ""):
            return _is_timely_2(self.params)
        moment = self.headers.get("x-amz-date") or self.params.get("X-Amz-Date", "")
        return _is_recent_stamp(moment, moment[:8]) and not _is_over(moment, self.params.get("X-Amz-Expires", ""))

    @property
    def valid_until(self) -> datetime:
        """The latest time at which ``is_timely`` can be true."""
        expires = _iso(self.params.get("Expires", "")) if "Timestamp" not in self.params else None
        return max(timezone.now() + 2 * MOST_OLD, expires) if expires is not None else timezone.now() + 2 * MOST_OLD

    def _version_2(self, secret: str) -> bool:
        method = _V2_METHODS.get(self.params.get("SignatureMethod", ""))
        if method is None or self.params.get("AWSAccessKeyId", self.access) != self.access:
            return False
        if not _is_timely_2(self.params):
            return False
        query = _query(self.params, without="Signature")
        return any(
            constant_time_compare(
                _base64_hmac(secret, f"{self.verb.upper()}\n{host}\n{self.path}\n{query}".encode(), method),
                self.signature,
            )
            for host in _hosts(self.host.lower())
        )

    def _version_4(self, secret: str, authorization: str) -> bool:
        parts = _authorization(authorization)
        scope = (parts.get("Credential") or self.params.get("X-Amz-Credential", "")).split("/")
        names = (parts.get("SignedHeaders") or self.params.get("X-Amz-SignedHeaders", "")).split(";")
        moment = self.headers.get("x-amz-date") or self.params.get("X-Amz-Date", "")
        if len(scope) != 5 or scope[0] != self.access or not _is_recent_stamp(moment, scope[1]):
            return False
        if self.must_sign_host and "host" not in names:
            return False
        if _is_over(moment, self.params.get("X-Amz-Expires", "")):
            return False
        query = "" if self.verb.upper() == "POST" else _query(self.params, without="X-Amz-Signature")
        return any(
            constant_time_compare(self._signed_4(secret, scope[1:], moment, names, query, host), self.signature)
            for host in _hosts(self.headers.get("host", self.host))
        )

    def _signed_4(self, secret: str, scope: list[str], moment: str, names: list[str], query: str, host: str) -> str:
        values = {**self.headers, "host": host}
        headers = "".join(f"{name}:{' '.join(values.get(name, '').split())}\n" for name in names)
        canonical = "\n".join([self.verb.upper(), self.path, query, headers, ";".join(names), self.body_hash])
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        return _sign_4(secret, scope, "\n".join([ALGORITHM, moment, "/".join(scope), digest]).encode())


def is_s3_signature(access_secret: str, string_to_sign: str, signature: str) -> bool:
    """Return whether a base64 text was signed with the secret, in S3's version 2 or in version 4."""
    text = b""
    with contextlib.suppress(binascii.Error, ValueError):
        text = base64.urlsafe_b64decode(string_to_sign.encode())
    if not text:
        return False
    if not text.startswith(ALGORITHM.encode()):
        return constant_time_compare(_base64_hmac(access_secret, text, "sha1"), signature)
    lines = text.decode(errors="replace").split("\n")
    scope = lines[2].split("/") if len(lines) == 4 else []
    if len(scope) != 4 or not _is_recent_stamp(lines[1], scope[0]):
        return False
    return constant_time_compare(_sign_4(access_secret, scope, text), signature)


def _sign_4(secret: str, scope: list[str], text: bytes) -> str:
    """Sign with the key of the scope: date, region, service and ``aws4_request``."""
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _base64_hmac(secret: str, text: bytes, method: str) -> str:
    return base64.b64encode(hmac.new(secret.encode(), text, method).digest()).decode()


def _query(params: Mapping[str, str], *, without: str) -> str:
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in params.items())
    return "&".join(f"{name}={value}" for name, value in pairs if name != without)


def _hosts(host: str) -> Iterator[str]:
    """Yield the host with and without its port, because some clients sign it without the port."""
    yield host
    name, mark, port = host.rpartition(":")
    if mark and port.isdigit():
        yield name


def _authorization(header: str) -> dict[str, str]:
    """Return the parts of ``AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…``."""
    fields = (field.strip().partition("=") for field in header.removeprefix(ALGORITHM).split(","))
    return {name: value for name, _, value in fields}


def _is_recent_stamp(moment: str, date: str) -> bool:
    with contextlib.suppress(ValueError):
        return moment.startswith(date) and _is_recent(datetime.strptime(moment, _STAMP).replace(tzinfo=UTC))
    return False


def _is_timely_2(params: Mapping[str, str]) -> bool:
    """Return whether a version 2 request is valid now, by its signing time or its expiry time."""
    if "Timestamp" in params:
        moment = _iso(params["Timestamp"])
        return moment is not None and _is_recent(moment)
    moment = _iso(params.get("Expires", ""))
    return moment is not None and timedelta() <= moment - timezone.now() <= LONGEST_EXPIRY


def _iso(text: str) -> datetime | None:
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _is_over(moment: str, seconds: str) -> bool:
    """Return whether a presigned request has expired: ``seconds`` after it was signed."""
    if not seconds:
        return False
    try:
        begun = datetime.strptime(moment, _STAMP).replace(tzinfo=UTC)
        return timezone.now() > begun + timedelta(seconds=int(seconds))
    except (ValueError, OverflowError):
        return True


def _is_recent(moment: datetime) -> bool:
    return abs(timezone.now() - moment) <= MOST_OLD
