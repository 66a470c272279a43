"""People and their tokens."""

from typing import Any

from provisioning.common.environment import env, flag, folder, integer, rates, text
from provisioning.common.settings import DATA_DIR, PORTAL_DIR, RUN_DIR

TOKEN_KEYS_DIR = folder("NOVELLA_TOKEN_KEYS_DIR", PORTAL_DIR / "secrets" / "token-keys", shown="`secrets/token-keys`")
"""Keys of the tokens; the same on every web process. The newest key issues tokens, all of them verify."""
CREDENTIAL_KEYS_DIR = folder(
    "NOVELLA_CREDENTIAL_KEYS_DIR", PORTAL_DIR / "secrets" / "credential-keys", shown="`secrets/credential-keys`"
)
"""Keys of users' stored credentials (EC2, TOTP …); the same on every process, and part of every backup: without them
the credentials are lost. The newest key encrypts, all of them decrypt.
"""
POLICY_FILE = folder("NOVELLA_POLICY_FILE", DATA_DIR / "policy.yaml", shown="`policy.yaml` in the data folder")
"""Rules that differ from the defaults ([policy](policy.md)); the same on every process."""
TOKEN_LIFETIME = integer("NOVELLA_TOKEN_LIFETIME", 86_400, 60, 31_536_000)
"""Seconds that a token, and a browser's session, is valid."""
RECEIPT_LIFETIME = integer("NOVELLA_RECEIPT_LIFETIME", 300, 1, 86_400)
"""Seconds within which a user who needs [several methods](operator-guide.md#sign-in-safety) must supply the next one.
"""
TRUST_REDELEGATIONS = integer("NOVELLA_TRUST_REDELEGATIONS", 3, 0, 100)
"""Maximum number of redelegations of a [trust](api.md)."""
IDENTITY_V2 = flag("NOVELLA_IDENTITY_V2", default=True)
"""Serve the Identity API v2.0 to old clients."""
TOTP = flag("NOVELLA_TOTP", default=False)
"""Let users sign in with passcodes of authenticator apps; each secret is a credential of type ``totp``."""
LOCKOUT_ATTEMPTS = integer("NOVELLA_LOCKOUT_ATTEMPTS", 20, 0, 1_000_000)
"""Wrong passwords for one name, from all addresses together, that lock the name out; 0: never."""
LOCKOUT_SECONDS = integer("NOVELLA_LOCKOUT_SECONDS", 900, 1, 31_536_000)
"""Seconds within which the attempts count, and for which the name is locked out."""
PASSWORD_MIN_LENGTH = integer("NOVELLA_PASSWORD_MIN_LENGTH", 8, 1, 1024)
"""Characters of a new password."""
PASSWORD_EXPIRES_DAYS = integer("NOVELLA_PASSWORD_EXPIRES_DAYS", 0, 0, 36_500)
"""Days after which a password must be changed; 0: never."""
PASSWORD_CHANGE_ON_FIRST_USE = flag("NOVELLA_PASSWORD_CHANGE_ON_FIRST_USE", default=False)
"""A password that another user set must be changed at the first sign-in."""
RATE_LIMITS = rates(
    "NOVELLA_RATE_LIMITS",
    {
        "launches": (300, 60),
        "daily_launches": (20_000, 86_400),
        "writes": (1800, 60),
        "daily_writes": (100_000, 86_400),
        "searches": (600, 60),
        "dry_runs": (600, 60),
    },
)
"""[Limits of requests](operator-guide.md#limits-of-requests) of one user, like ``launches=300/60,writes=1800/60``;
other limits keep their defaults, ``none``: no limits.
"""
CACHE_URL = text("NOVELLA_CACHE_URL", "", shown="a file in `run/`")
"""Where wrong passwords are counted: ``redis://host:6379/1`` (with Python's package ``redis`` installed) for web on
several machines, or a folder that they share, ``filecache:///folder``; see
[Sign-in safety](operator-guide.md#sign-in-safety).
"""


def _of_machine(name: str, entries: int) -> dict[str, Any]:
    return {
        "BACKEND": "provisioning.common.machine.machine_cache.MachineCache",
        "LOCATION": str(RUN_DIR / f"{name}.sqlite3"),
        "OPTIONS": {"MAX_ENTRIES": entries},
    }


CACHES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    "sign_in": env.cache_url("NOVELLA_CACHE_URL") if CACHE_URL else _of_machine("sign-in", 100_000),
    "lockouts": _of_machine("lockouts", 1_000_000),
    "rates": _of_machine("rates", 100_000),
    "edits": _of_machine("edits", 10_000),
}
"""``sign_in`` counts wrong passwords. ``lockouts`` counts the wrong passwords of each user in a separate cache, so that
sign-ins with many other names do not evict its entries. ``rates`` counts requests. ``edits`` has the last
editors of records.
"""
if "LocMem" in CACHES["sign_in"]["BACKEND"]:
    CACHES["sign_in"]["OPTIONS"] = {"MAX_ENTRIES": 100_000}
elif "FileBased" in CACHES["sign_in"]["BACKEND"]:
    CACHES["sign_in"]["OPTIONS"] = {"MAX_ENTRIES": 20_000}
