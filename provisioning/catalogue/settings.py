"""The catalogue of images."""

from django.core.exceptions import ImproperlyConfigured

from provisioning.catalogue.index.signatures import is_key
from provisioning.common.environment import integer, names, text

CATALOGUE = text("NOVELLA_CATALOGUE", "built-in")
"""The [image catalogue](operator-guide.md#image-catalogue): `built-in`, `none`, the absolute path of a folder with
`index.json`, or the http or https address of an index.
"""
CATALOGUE_KEYS = names("NOVELLA_CATALOGUE_KEYS", [])
"""Public keys (Ed25519, base64), separated by commas. The index of a folder or an address must be signed by one of
them.
"""
CATALOGUE_INTERVAL = integer("NOVELLA_CATALOGUE_INTERVAL", 21_600, 60, 604_800)
"""Seconds between two downloads of the index. The index of a folder is read every minute."""

if CATALOGUE not in {"built-in", "none"} and not CATALOGUE.startswith(("/", "http://", "https://")):
    raise ImproperlyConfigured(
        f"NOVELLA_CATALOGUE is {CATALOGUE!r}; it must be built-in, none, an absolute path, or an http or https address."
    )
if not all(is_key(each) for each in CATALOGUE_KEYS):
    raise ImproperlyConfigured(
        "NOVELLA_CATALOGUE_KEYS must be a list of Ed25519 public keys in base64, of 32 bytes each."
    )
