"""The configuration with which the ``openstack`` command finds this cloud; without the password."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from django.conf import settings

from provisioning.common.context import RequestContext


@dataclass(frozen=True, slots=True)
class Terminal:
    """Texts to copy."""

    clouds_yaml: str
    openrc: str
    example: str


def terminal_for(context: RequestContext) -> Terminal:
    """Return the texts for this person in this project, with names quoted for YAML (as JSON) and for the shell."""
    address = f"{settings.PUBLIC_URL}/identity/v3"
    clouds = f"""clouds:
  novella:
    auth:
      auth_url: {address}
      username: {json.dumps(context.user_name)}
      password: YOUR-PASSWORD
      project_name: {json.dumps(context.project_name)}
      user_domain_id: {json.dumps(context.user_domain_id)}
      project_domain_id: {json.dumps(context.project_domain_id)}
    region_name: {json.dumps(settings.REGION)}
    identity_api_version: 3"""
    variables = {
        "OS_AUTH_URL": address,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": context.user_name,
        "OS_USER_DOMAIN_ID": context.user_domain_id,
        "OS_PROJECT_NAME": context.project_name,
        "OS_PROJECT_DOMAIN_ID": context.project_domain_id,
        "OS_REGION_NAME": settings.REGION,
    }
    openrc = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    prompt = 'read -rsp "Password: " OS_PASSWORD && export OS_PASSWORD'
    return Terminal(clouds, f"{openrc}\n{prompt}", "openstack --os-cloud novella server list")
