"""Trusts made by requests, and tokens got with them."""

from __future__ import annotations

from typing import Any

from tests.identity.bodies import TOKENS, by_password
from tests.support.cast import Api, Person

TRUSTS = "/identity/v3/OS-TRUST/trusts"


def body(trustor: Person, trustee: Person, **changes: Any) -> dict[str, Any]:
    """What the trustor asks for: to let the trustee read in the own project.  None leaves a field out."""
    fields = {
        "trustor_user_id": trustor.user_id.hex,
        "trustee_user_id": trustee.user_id.hex,
        "project_id": trustor.project_id.hex,
        "impersonation": False,
        "roles": [{"name": "reader"}],
    }
    return {"trust": {name: value for name, value in {**fields, **changes}.items() if value is not None}}


def give(trustor: Person, trustee: Person, *, token: str = "", **changes: Any) -> dict[str, Any]:
    """Make a trust, with another token than the trustor's if one is given, and return what was answered."""
    api = Api(None, **{"X-Auth-Token": token}) if token else Api(trustor)
    answer = api.post(TRUSTS, body(trustor, trustee, **changes))
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()["trust"]
    return made


def enter(trustee: Person, trust: dict[str, Any]) -> Any:
    """Ask for a token with the trust, by the trustee's password."""
    return Api(None).post(TOKENS, by_password(trustee, {"OS-TRUST:trust": {"id": trust["id"]}}))


def token(trustee: Person, trust: dict[str, Any]) -> str:
    answer = enter(trustee, trust)
    assert answer.status_code == 201, answer.content
    return str(answer["X-Subject-Token"])


def with_token(value: str) -> Api:
    """A client that holds this token."""
    return Api(None, **{"X-Auth-Token": value})
