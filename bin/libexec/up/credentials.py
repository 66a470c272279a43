"""The files by which the standard clients sign in: clouds.yaml and openrc-*.sh, readable by their owner only.

They specify no microversion: clients negotiate one, and a program that needs a different one would fail.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from up.data_folder import DataFolder

REGION = "RegionOne"


@dataclass(frozen=True)
class SignIn:
    """One cloud of clouds.yaml: a user in a project of the same name."""

    name: str
    password: str | None
    """None if the user has changed the initial password."""


def token_request(user: str, password: str, project: str) -> dict[str, Any]:
    """Return the body of ``POST /v3/auth/tokens`` for a user in a project, both of the default domain."""
    domain = {"id": "default"}
    person = {"name": user, "password": password, "domain": domain}
    identity = {"methods": ["password"], "password": {"user": person}}
    return {"auth": {"identity": identity, "scope": {"project": {"name": project, "domain": domain}}}}


def sign_ins(data: DataFolder, passwords: dict[str, str | None]) -> list[SignIn]:
    """Return the seeded users. If a user has changed the initial password, it is read from clouds.yaml, where the user
    may have written the new one.
    """
    written = read_passwords(data.path / "clouds.yaml")
    return [SignIn(name, password or written.get(name)) for name, password in passwords.items()]


def read_passwords(path: Path) -> dict[str, str]:
    """Return cloud → password from the data folder's clouds.yaml, which users may have edited."""
    found: dict[str, str] = {}
    cloud = ""
    for line in path.read_text().splitlines() if path.exists() else []:
        if name := re.fullmatch(r"  (\w+):", line):
            cloud = name[1]
        elif secret := re.fullmatch(r"\s+password: (.+)", line):
            found[cloud] = _unquoted(secret[1].strip())
    return found


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text.strip("'")


def write(data: DataFolder, auth_url: str, users: list[SignIn]) -> None:
    """Write clouds.yaml and one openrc file for each user."""
    clouds = "".join(_cloud(user, auth_url) for user in users)
    data.write_private("clouds.yaml", f"clouds:\n{clouds}")
    for user in users:
        data.write_private(f"openrc-{user.name}.sh", _openrc(user, auth_url))


def _cloud(user: SignIn, auth_url: str) -> str:
    password = f"      password: {json.dumps(user.password)}\n" if user.password else ""
    return (
        f"  {user.name}:\n"
        "    auth:\n"
        f"      auth_url: {json.dumps(auth_url)}\n"
        f"      username: {json.dumps(user.name)}\n"
        f"{password}"
        f"      project_name: {json.dumps(user.name)}\n"
        '      user_domain_name: "Default"\n'
        '      project_domain_name: "Default"\n'
        f"    region_name: {json.dumps(REGION)}\n"
        '    identity_api_version: "3"\n'
    )


def _openrc(user: SignIn, auth_url: str) -> str:
    variables = {
        "OS_AUTH_URL": auth_url,
        "OS_USERNAME": user.name,
        "OS_PASSWORD": user.password or "",
        "OS_PROJECT_NAME": user.name,
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_REGION_NAME": REGION,
        "OS_IDENTITY_API_VERSION": "3",
    }
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
