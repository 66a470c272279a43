"""Configuration of OpenStack clients for this cloud: ``clouds.yaml`` and ``openrc``.

Names can contain any character, so values are quoted for YAML and for the shell. The files specify no microversion:
clients negotiate one, and a program that requests another would fail.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.conf import settings
from django.http import HttpRequest

from portal.common.http.public_url import public_url
from provisioning.common.context import RequestContext
from provisioning.identity.records.catalog import PATHS

CLOUD = "novella"
"""The cloud's name in ``clouds.yaml``."""
_LEFT_OVER = (
    *("OS_CLOUD", "OS_AUTH_TYPE", "OS_TOKEN", "OS_USERNAME", "OS_USER_ID", "OS_PASSWORD", "OS_USER_DOMAIN_ID"),
    *("OS_USER_DOMAIN_NAME", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_PROJECT_DOMAIN_ID", "OS_PROJECT_DOMAIN_NAME"),
    *("OS_TENANT_ID", "OS_TENANT_NAME", "OS_DOMAIN_ID", "OS_DOMAIN_NAME", "OS_SYSTEM_SCOPE"),
    *("OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_NAME", "OS_APPLICATION_CREDENTIAL_SECRET"),
)
"""Environment variables that another sign-in may have set, and that would conflict with the variables in ``openrc``."""


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """The two files as texts."""

    clouds_yaml: str
    openrc: str


def auth_url(request: HttpRequest) -> str:
    """Return the address for authentication."""
    return public_url(request) + PATHS["identity"]


def password_files(request: HttpRequest, context: RequestContext) -> ClientFiles:
    """Return the files for this user in this project; clients ask for the password, which the files do not contain."""
    auth = {
        "auth_url": auth_url(request),
        "username": context.user_name,
        "user_domain_id": context.user_domain_id,
        "project_name": context.project_name,
        "project_domain_id": context.project_domain_id,
    }
    asking = (
        "printf 'Password of %s: ' \"$OS_USERNAME\"\n"
        "IFS= read -rs OS_PASSWORD\n"
        "export OS_PASSWORD\n"
        "echo\n"
    )  # fmt: skip
    return ClientFiles(_clouds_yaml({"auth": auth}), _openrc(auth) + asking)


def application_credential_files(request: HttpRequest, credential_id: str, secret: str) -> ClientFiles:
    """Return the files for an application credential; they contain its secret."""
    auth = {
        "auth_url": auth_url(request),
        "application_credential_id": credential_id,
        "application_credential_secret": secret,
    }
    kind = {"auth_type": "v3applicationcredential"}
    return ClientFiles(_clouds_yaml({**kind, "auth": auth}), _openrc({**kind, **auth}))


def _clouds_yaml(sign_in: Mapping[str, Any]) -> str:
    cloud = {**sign_in, "region_name": settings.REGION, "interface": "public", "identity_api_version": 3}
    clouds = {"clouds": {CLOUD: cloud}}
    text: str = yaml.dump(
        clouds, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=4096
    )
    return text


def _openrc(values: Mapping[str, str]) -> str:
    named = {f"OS_{name.upper()}": value for name, value in values.items()}
    named |= {"OS_REGION_NAME": settings.REGION, "OS_INTERFACE": "public", "OS_IDENTITY_API_VERSION": "3"}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in named.items()]
    return "\n".join([f"unset {' '.join(_LEFT_OVER)}", *lines]) + "\n"
