"""Plays requests against a small cloud and keeps what is answered, at which microversions.

A *pair* is a request and its answer: it holds from microversion ``since`` to ``until``, and the next pair of the same
name begins where request or answer change.  What differs from run to run (ids, times, addresses) is a ``<name>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction

from tests.samples.store import Pair
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud

Version = tuple[int, int]
VERSIONS: list[Version] = [(2, minor) for minor in range(1, 97)]
_STEPS = (
    0,
    3,
    5,
    8,
    9,
    11,
    13,
    14,
    18,
    20,
    21,
    25,
    27,
    36,
    38,
    40,
    41,
    43,
    44,
    45,
    48,
    49,
    55,
    56,
    57,
    58,
    61,
    62,
    63,
    65,
)
VOLUME_VERSIONS: list[Version] = [(3, minor) for minor in (*_STEPS, 65, 70, 71)]
"""Where answers of the Block Storage API change, or begin, and the newest."""
MICROVERSIONS = {"compute": VERSIONS, "volume": VOLUME_VERSIONS}
ACTED_ON = {"/servers/{server_id}/action", "/v3/volumes/{volume_id}/action", "/v3/snapshots/{snapshot_id}/action"}
"""Addresses whose actions are operations of their own in the references."""
HEADERS = ("Location", "Content-Type", "Content-Range", "Accept-Ranges", "Content-MD5", "Content-Length", "Retry-After")
"""What is kept of an answer's headers, besides those for which OpenStack has a name of its own."""
OWN = re.compile(r"openstack-image-.*", re.I)
PATTERNS: list[tuple[str, re.Pattern[str]]] = [
    ("request_id", re.compile(r"\breq-[0-9a-f-]{36}")),
    ("uuid", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("export", re.compile(r"\b[0-9a-f]{8}(?=-\d+\b|\.sock\b)")),
    ("hash", re.compile(r"\b[0-9a-f]{128}\b")),
    ("host_id", re.compile(r"\b[0-9a-f]{56}\b")),
    ("hex", re.compile(r"\b[0-9a-f]{32}\b")),
    ("time", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")),
    ("fingerprint", re.compile(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){15}\b|SHA256:\S+")),
    ("mac", re.compile(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b")),
    ("address", re.compile(r"\b10\.20\.0\.\d+\b")),
    ("integer", re.compile(r"(?<=aggregate )\d+|(?<=Migration )\d+")),
    ("instance_name", re.compile(r"\binstance-[0-9a-f]{8}\b")),
    ("reservation_id", re.compile(r"\br-[0-9a-z]{8}\b")),
    ("public_key", re.compile(r"ssh-(rsa|ed25519) [A-Za-z0-9+/=]+[^\"]*", re.S)),
    ("console_token", re.compile(r"(?<=token=)[\w-]{43}|(?<=token%3D)[\w-]{43}")),
    ("private_key", re.compile(r"-----BEGIN .*-----\n?", re.S)),
]
SECRET_KEYS = {"adminPass": "password", "uptime": "uptime", "auth_key": "auth_key", "backup_url": "backup_url"}
NUMBERS = {
    "uptime",
    "total_hours",
    "hours",
    "total_memory_mb_usage",
    "total_vcpus_usage",
    "total_local_gb_usage",
    "provider:segmentation_id",
}


def text_of(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def version_of(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


@dataclass
class Scene:
    """One resource's requests, in order, in a cloud of its own.

    With ``kept`` (the pairs of the store) every request is made at both ends of the microversions of its pairs;
    without, at all of them.  Unless ``everywhere``, further requests of an operation are made where a pair begins.
    """

    people: People
    cloud: Cloud
    service: str = "compute"
    kept: list[Pair] | None = None
    everywhere: bool = True
    pairs: list[Pair] = field(default_factory=list)
    ids: dict[str, Any] = field(default_factory=dict)
    _apis: dict[str, Api] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)
    _plain_texts: dict[str, str] = field(default_factory=dict)
    """Texts with their placeholders, for the names that are known: most are in many answers."""

    def __post_init__(self) -> None:
        self.let("image_id", self.cloud.image.id)
        self.let("network_id", self.cloud.network.id)
        for person in self.people.everybody():
            self._know(str(person.user_id), f"{person.user.name}_user_id")
            self._know(str(person.project_id), f"{person.project.name}_project_id")

    def person(self, who: str) -> Person:
        person: Person = getattr(self.people, who)
        return person

    def api(self, who: str) -> Api:
        """A client of a person; at the oldest microversion unless its headers say otherwise."""
        if who not in self._apis:
            self._apis[who] = Api(self.person(who))
        return self._apis[who]

    def let(self, name: str, value: Any) -> Any:
        """Give a value its name, in addresses (``{name}``) and in what is kept (``<name>``)."""
        self.ids[name] = value
        self._given.add(name)
        self._know(str(value), name)
        return value

    def _know(self, value: str, name: str) -> None:
        self._plain_texts.clear()
        if not value.isdigit() or len(value) > 6:
            self._names[value] = name
            self._names[value.replace("-", "")] = name

    def play(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        who: str = "alice",
        since: Version = (0, 0),
        until: Version = (9, 0),
        bodies: dict[Version, Any] | None = None,
        keep: Version | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Make a request at microversions ``since`` to ``until`` and keep the pairs.

        ``bodies`` gives the body from a microversion on.  What the request does is undone, except at microversion
        ``keep``, which is played last; returns that answer's body, else the newest one's.
        """
        chosen = MICROVERSIONS.get(self.service, VERSIONS[-1:])
        chosen = [each for each in chosen if since <= each <= until]
        operation = self._operation(method, path, body or next(iter((bodies or {}).values()), None))
        if self.kept is not None:
            both = self.everywhere or operation not in {pair["operation"] for pair in self.pairs}
            chosen = self._ends(name, chosen, both=both)
        if keep is not None:
            chosen = [*(each for each in chosen if each != keep), keep]
        result: dict[Version, tuple[Pair, Any]] = {}
        for version in chosen:
            sent = body
            for start, given in (bodies or {}).items():
                sent = given if version >= start else sent
            result[version] = self._undone(
                lambda version=version, sent=sent: self._ask(version, method, path, sent, who, headers or {}),
                undo=version != keep,
            )
        self._keep(name, operation, {version: result[version][0] for version in sorted(result)})
        return result[keep or max(result)][1]

    @staticmethod
    def _operation(method: str, path: str, body: Any) -> str:
        """The operation as the lists of the references name it."""
        plain = path.partition("?")[0]
        action = f" ({next(iter(body))})" if plain in ACTED_ON else ""
        return f"{method} {plain}{action}"

    def _ends(self, name: str, chosen: list[Version], *, both: bool) -> list[Version]:
        ends: set[str] = set()
        for pair in self.kept or []:
            if pair["name"] == name:
                ends |= {pair.get(end, "2.96") for end in (("since", "until") if both else ("since",))}
        return [each for each in chosen if text_of(each) in ends] or chosen[-1:]

    @staticmethod
    def _undone(play: Callable[[], tuple[Pair, Any]], *, undo: bool) -> tuple[Pair, Any]:
        with transaction.atomic():
            answer = play()
            if undo:
                transaction.set_rollback(True)
        return answer

    def _ask(
        self, version: Version, method: str, path: str, body: Any, who: str, headers: dict[str, str]
    ) -> tuple[Pair, Any]:
        api = self.api(who)
        sent = {**api.headers, **headers}
        if self.service in MICROVERSIONS:
            sent["OpenStack-API-Version"] = f"{self.service} {text_of(version)}"
        operation = path.partition("?")[0]
        url = self._prefix(operation) + self._filled(path)
        given: dict[str, Any] = {"headers": sent}
        if body is not None:
            raw = isinstance(body, bytes)
            kind = headers.get("Content-Type") or ("application/octet-stream" if raw else "application/json")
            given |= {"data": body if raw else json.dumps(body), "content_type": kind}
        answer = api.client.generic(method, url, **given)
        assert answer.status_code != 500, (method, url, answer.content)
        if self.service == "compute":
            self._check_versions(answer, version)
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        document = self._document(answer, content)
        request: Pair = {"who": who, "method": method, "path": self.plain(self._filled(path, plain=True))}
        if headers:
            request["headers"] = headers
        if body is not None:
            request["body"] = f"<{len(body)} bytes>" if isinstance(body, bytes) else self.plain(body)
        response: Pair = {"status": answer.status_code}
        if seen := self._headers(answer, document):
            response["headers"] = seen
        if content:
            is_bytes = isinstance(document, bytes)
            response["body"] = f"<{len(content)} bytes>" if is_bytes else self.plain(document)
        return {"request": request, "response": response}, document

    def _prefix(self, operation: str) -> str:
        if self.service != "compute":
            return f"/{self.service}"
        return "/compute" if operation in {"/", "/v2.1/"} else "/compute/v2.1"

    def _filled(self, path: str, *, plain: bool = False) -> str:
        """Put ids for the names of an address; ``plain``: leave those that differ from run to run."""

        def value(match: re.Match[str]) -> str:
            return f"<{match[1]}>" if plain and match[1] in self._given else str(self.ids[match[1]])

        return re.sub(r"\{([\w-]+)\}", value, path)

    @staticmethod
    def _document(answer: Any, content: bytes) -> Any:
        if "json" not in answer.headers.get("Content-Type", ""):
            return content
        return json.loads(content) if content else None

    @staticmethod
    def _check_versions(answer: Any, version: Version) -> None:
        """Every answer says its microversion, in both headers, and what it varies by."""
        text = text_of(version)
        if answer.status_code == 300 or "X-OpenStack-Nova-API-Version" not in answer.headers:
            return
        assert answer.headers["OpenStack-API-Version"] == f"compute {text}"
        assert answer.headers["X-OpenStack-Nova-API-Version"] == text
        assert {"OpenStack-API-Version", "X-OpenStack-Nova-API-Version"} <= set(
            re.split(r",\s*", answer.headers["Vary"])
        )

    def _headers(self, answer: Any, document: Any) -> dict[str, str]:
        seen = {}
        for name, value in answer.headers.items():
            usual = name == "Content-Type" and value == "application/json"
            counted = name == "Content-Length" and not (isinstance(document, bytes) and document)
            if (name in HEADERS or OWN.fullmatch(name)) and not usual and not counted:
                seen[name] = self.plain(value)
        return dict(sorted(seen.items()))

    def plain(self, value: Any, key: str = "") -> Any:
        """Put placeholders for what is not the same in every run."""
        if isinstance(value, dict):
            named = {self.plain(name): self.plain(each, name) for name, each in value.items()}
            return dict(sorted(named.items()))
        if isinstance(value, list):
            return [self.plain(each, key) for each in value]
        if SECRET_KEYS.get(key) and isinstance(value, str) and value:
            return f"<{SECRET_KEYS[key]}>"
        if isinstance(value, str):
            return self._plain_text(value)
        return self._plain_number(value, key)

    def _plain_number(self, value: Any, key: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if key in NUMBERS or isinstance(value, float):
            return "<number>"
        return "<integer>" if key == "id" or key.endswith("_type_id") else value

    def _plain_text(self, text: str) -> str:
        if text not in self._plain_texts:
            self._plain_texts[text] = self._with_placeholders(text)
        return self._plain_texts[text]

    def _with_placeholders(self, text: str) -> str:
        for value in sorted((each for each in self._names if each in text), key=len, reverse=True):
            text = text.replace(value, f"<{self._names[value]}>")
        for name, pattern in PATTERNS:
            text = pattern.sub(f"<{name}>", text)
        return text.replace(str(settings.IMAGE_DIR), "<folder>").replace("http://testserver", "<url>")

    def _keep(self, name: str, operation: str, found: dict[Version, Pair]) -> None:
        """Join neighbours that say the same; ``name`` is the name of every pair."""
        assert name not in {pair["name"] for pair in self.pairs}, name
        known = {pair.get("since"): pair.get("until") for pair in self.kept or () if pair["name"] == name}
        last: Pair | None = None
        for version, pair in found.items():
            text = text_of(version)
            if last and (last["request"], last["response"]) == (pair["request"], pair["response"]):
                last["until"] = max(last["until"], text, key=version_of)
                continue
            until = text if self.everywhere else known.get(text) or text
            last = {"name": name, "operation": operation, "since": text, "until": until, **pair}
            if self.service not in MICROVERSIONS:
                last = {"name": name, "operation": operation, **pair}
            self.pairs.append(last)
