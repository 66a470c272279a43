"""A user of the EC2 API: signs and sends requests, and records which resource each EC2 id was shown for."""

from __future__ import annotations

import http.client
import threading
import time
from typing import Any

from botocore.parsers import ResponseParserError

from tools.chaos.clients.client import Answer, dialled
from tools.ec2_client import PATH, REQUEST_ID, Ec2Keys, read


class Ec2:
    """A user with EC2 credentials; each request is signed when it is sent, on its own connection."""

    def __init__(self, port: int, access: str, secret: str) -> None:
        self._port, self._keys = port, Ec2Keys(port, access, secret)
        self.broken: list[str] = []
        """Descriptions of the requests that were answered with 500, including reads."""

    def ask(self, action: str, *, cut: float | None = None, **arguments: Any) -> Answer:
        """Send a request once. With ``cut``, disconnect that many seconds later without reading the answer.

        Raises UnreachableError.
        """
        connection = dialled(self._port)
        signed = self._keys.signed(action, arguments)
        try:
            connection.request("POST", PATH, signed.body, dict(signed.headers))
            if cut is not None:
                time.sleep(cut)
                return Answer(0, f"cut after {cut} s", "")
            response = connection.getresponse()
            content, status = response.read(), response.status
            request_id = response.headers.get(REQUEST_ID, "") or ""
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, f"{type(error).__name__}: {error}", "")
        finally:
            connection.close()
        try:
            found = read(action, status, content)
        except ResponseParserError:
            return Answer(status, content[:200].decode(errors="replace"), request_id)
        refusal = found.get("Error", {})
        if status == 500:
            self.broken.append(f"{action} was an internal error: {refusal.get('Message')}")
        body = {"error": {"message": f"{refusal.get('Code')}: {refusal.get('Message')}"}} if status >= 300 else found
        return Answer(status, body, request_id)


class Ids:
    """The first resource that each EC2 id was shown for, and the first id of each resource: later answers must agree
    with them.
    """

    def __init__(self) -> None:
        self._things: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._lock = threading.Lock()
        self.wrongs: list[str] = []

    def shown(self, ec2_id: str, thing: str, *, alone: bool = True) -> None:
        """Record that an answer showed an EC2 id for a resource. With ``alone``, the resource must not be shown with
        another id.
        """
        with self._lock:
            before = self._things.setdefault(ec2_id, thing)
            if before != thing:
                self.wrongs.append(f"{ec2_id} was {before}, and is {thing}.")
            other = self._ids.setdefault(thing, ec2_id) if alone else ec2_id
            if other != ec2_id:
                self.wrongs.append(f"{thing} was {other}, and is {ec2_id}.")

    def copy(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return a copy of the recorded ids."""
        with self._lock:
            return dict(self._things), dict(self._ids)

    def put_back(self, copy: tuple[dict[str, str], dict[str, str]]) -> None:
        """Restore a copy of the recorded ids after a loss of records: resources that were created after the copy no
        longer exist.
        """
        with self._lock:
            self._things, self._ids = (dict(each) for each in copy)
