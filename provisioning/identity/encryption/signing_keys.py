"""The keys that sign browsers' sessions and the messages of the queue: from the environment, or from a file of each."""

import secrets
from pathlib import Path

from django.conf import settings

from provisioning.common.environment import env


def load() -> None:
    """Set the keys in the settings; missing keys are created. A process keeps the keys that it has read at its start.

    A command without keys also runs where it cannot create them, and fails when it needs one.
    """
    folder = Path(settings.PORTAL_DIR) / "secrets"
    try:
        settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS = keys("NOVELLA_SECRET_KEY", folder / "secret_key")
        settings.BUS_KEY, *settings.BUS_KEY_FALLBACKS = keys("NOVELLA_BUS_KEY", folder / "bus_key")
    except OSError:
        if settings.ROLE != "command":
            raise


def keys(name: str, path: Path) -> list[str]:
    """Read secret keys: the first key signs, and signatures by the other keys are still accepted.

    They come from ``name`` and ``name_FALLBACKS``, or from the lines of a file that is created on first use (mode
    0600).
    """
    configured: str = env.str(name, default="")
    if configured:
        return [configured, *(key for key in env.list(f"{name}_FALLBACKS", default=[]) if key)]
    if not path.exists():
        _create(path)
    return path.read_text().split()


def add(path: Path, keep: int) -> None:
    """Prepend a new key to the file, and keep at most ``keep`` keys in it. The file is replaced atomically."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join([secrets.token_urlsafe(48), *path.read_text().split()][:keep]))
    fresh.replace(path)


def _create(path: Path) -> None:
    folder = path.parent
    for each in (folder.parent.parent, folder.parent, folder):  # the mode applies only to the last directory
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = folder / f".{path.name}.{secrets.token_hex(4)}"
    temporary.touch(mode=0o600)
    temporary.write_text(secrets.token_urlsafe(48))
    try:
        path.hardlink_to(temporary)  # the first of several processes creates it
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
