"""A user of the dashboard's launch wizard, who submits the same form several times."""

from __future__ import annotations

import http.client
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from tools.chaos.clients.client import ANSWER_WITHIN, REACHED_WITHIN, Answer, UnreachableError

LAUNCHED = (302, 303)
CSRF, SESSION = "novella_csrf", "novella_session"
TRIES = 3


class Wizard:
    """A user who has signed in to the dashboard and launches servers by the wizard."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._port, self._user, self._password = port, user, password
        self._csrf = secrets.token_hex(16)
        self._session = ""

    def sign_in(self) -> None:
        """Open a session.  Raises UnreachableError."""
        deadline = time.monotonic() + REACHED_WITHIN
        while time.monotonic() < deadline:
            status, cookies = self._post("/auth/login/", {"user_name": self._user, "password": self._password})
            if status in LAUNCHED and SESSION in cookies:
                self._session = cookies[SESSION]
                return
            time.sleep(0.3)
        raise UnreachableError(f"{self._user} cannot sign in to the dashboard")

    def launch(self, form: Mapping[str, str]) -> Answer:
        """Submit the form, and again if there was no answer. A redirect counts as accepted (202), 422 as
        refused (403).
        """
        status = 0
        for _ in range(TRIES):
            status, _ = self._post("/instances/launch/", form)
            if status in LAUNCHED:
                return Answer(202, None, "")
            if status == 422:
                return Answer(403, "the wizard shows an error", "")
            time.sleep(0.5)
        return Answer(status if status >= 500 else 0, "the wizard did not answer", "")

    def _post(self, path: str, form: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """Return the status (0 without an answer) and the cookies that the answer sets."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_WITHIN)
        cookies = {CSRF: self._csrf} | ({SESSION: self._session} if self._session else {})
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
        }
        try:
            connection.request("POST", path, urlencode({**form, "csrfmiddlewaretoken": self._csrf}), headers)
            answer = connection.getresponse()
            answer.read()
            set_cookies = [line.partition(";")[0].partition("=") for line in answer.headers.get_all("Set-Cookie", [])]
            return answer.status, {name: value for name, _, value in set_cookies}
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()
