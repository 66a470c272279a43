"""A user of the cloud. It sends each request once, and distinguishes a missing answer from a refusal."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.chaos.calls import MICROVERSION
from up.credentials import token_request

ANSWER_WITHIN = 20.0
REACHED_WITHIN = 60.0
"""Seconds for which a client tries to connect to a web that is being restarted."""
VOLUME_MICROVERSION = (3, 70)


class UnreachableError(Exception):
    """The web was not reachable for longer than a restart takes."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request. ``status`` is 0 if there was none: the request may or may not have been carried out."""

    status: int
    body: Any
    request_id: str

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the cloud refused the request (4xx) and changed nothing."""
        return 400 <= self.status < 500

    @property
    def words(self) -> str:
        """Return the message of an error."""
        if isinstance(self.body, dict) and len(self.body) == 1:
            (inner,) = self.body.values()
            if isinstance(inner, dict):
                return str(inner.get("message", ""))
        return str(self.body)[:200]


class Client:
    """A signed-in user with a project. Threads may share a client, because every call opens its own connection."""

    def __init__(self, port: int, user: str, password: str, project: str) -> None:
        self._port, self._user, self._password, self._project = port, user, password, project
        self.token = ""
        self.patient = True
        """Whether a request is repeated for a while after status 503: a busy cloud answers it without carrying out the
        request.
        """

    def sign_in(self) -> None:
        """Get a token.  Raises UnreachableError."""
        deadline = time.monotonic() + REACHED_WITHIN
        while time.monotonic() < deadline:
            connection = dialled(self._port)
            try:
                text = json.dumps(token_request(self._user, self._password, self._project))
                connection.request("POST", "/identity/v3/auth/tokens", text, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 201:
                    self.token = answer.headers["X-Subject-Token"] or ""
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.3)
        raise UnreachableError(f"{self._user} cannot sign in")

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Send a request. Raises UnreachableError.

        The request is repeated only if the cloud cannot have carried it out: after a refused connection, after 401, and
        by a patient client after 503.
        """
        answer = self._call(method, path, body, content_type)
        if answer.status == 401:
            self.sign_in()
            answer = self._call(method, path, body, content_type)
        deadline = time.monotonic() + REACHED_WITHIN
        while self.patient and answer.status == 503 and time.monotonic() < deadline:
            time.sleep(1)
            answer = self._call(method, path, body, content_type)
        return answer

    def _call(self, method: str, path: str, body: Any, content_type: str) -> Answer:
        headers: Mapping[str, str] = {
            "X-Auth-Token": self.token,
            "Content-Type": content_type,
            "OpenStack-API-Version": _version(path),
            "X-Subject-Token": self.token,
        }
        connection = dialled(self._port)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
            response = connection.getresponse()
            text = response.read()
            request_id = response.headers.get("x-openstack-request-id", "") or ""
            return Answer(response.status, _decoded(text), request_id)
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, f"{type(error).__name__}: {error}", "")
        finally:
            connection.close()


def dialled(port: int) -> http.client.HTTPConnection:
    """Return a connection to the web.

    Raises UnreachableError if the web is not reachable for longer than a restart takes.
    """
    deadline = time.monotonic() + REACHED_WITHIN
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN)
        try:
            connection.connect()
        except OSError as error:
            if time.monotonic() > deadline:
                raise UnreachableError(f"the web does not listen: {error}") from error
            time.sleep(0.1)
        else:
            return connection


def _version(path: str) -> str:
    service, version = ("volume", VOLUME_MICROVERSION) if path.startswith("/volume") else ("compute", MICROVERSION)
    return f"{service} {version[0]}.{version[1]}"


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")[:500]
