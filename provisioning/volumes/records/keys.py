"""The keys of encrypted volumes: stored encrypted with the credential keys, and sealed in commands."""

import base64
import hashlib
import secrets

from cryptography.fernet import Fernet, InvalidToken

from compute_agent.contract.volume import VolumeEncryption
from provisioning.common.errors import GoneError, InvalidInputError
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed
from provisioning.volumes.models import Backup, TypeEncryption, Volume

CIPHER, KEY_SIZE = "aes-xts-plain64", 256
CIPHERS = (CIPHER, "aes-cbc-essiv")
KEY_SIZES = (128, 192, KEY_SIZE, 512)
"""Supported key sizes in bits."""
PROVIDERS = ("luks", "nova.volume.encryptors.luks.LuksEncryptor", "LuksEncryptor")
BYTES = 32
"""Random bytes of a passphrase, from which LUKS derives the data key. QEMU requires a passphrase that is text."""


def new_columns(encryption: TypeEncryption | None) -> dict[str, str | int]:
    """Return the key columns of a new volume of a type with this encryption; empty without encryption.

    Volume types accept any encryption, as in Cinder. Raises InvalidInputError for an encryption that storage daemons do
    not support.
    """
    if encryption is None:
        return {}
    _check(encryption)
    key = base64.b64encode(secrets.token_hex(BYTES).encode())
    return {
        "encryption_key": keys.CREDENTIALS.current().encrypt(key).decode(),
        "cipher": encryption.cipher or CIPHER,
        "key_size": encryption.key_size or KEY_SIZE,
    }


def _check(encryption: TypeEncryption) -> None:
    what = f"Volume type {encryption.volume_type_id} cannot be used"
    if encryption.provider not in PROVIDERS:
        msg = f"{what}: volumes are encrypted with luks, not with {encryption.provider[:64]!r}."
        raise InvalidInputError(msg, field="volume_type")
    if encryption.cipher and encryption.cipher not in CIPHERS:
        msg = f"{what}: the cipher must be one of {', '.join(CIPHERS)}, not {encryption.cipher[:64]!r}."
        raise InvalidInputError(msg, field="volume_type")
    if encryption.key_size is not None and encryption.key_size not in KEY_SIZES:
        msg = f"{what}: the key size must be one of {KEY_SIZES} bits, not {encryption.key_size}."
        raise InvalidInputError(msg, field="volume_type")


def columns_of(volume: Volume) -> dict[str, str | int]:
    """Return the key columns for a copy of this volume: the copy has the same key as its source."""
    return {"encryption_key": volume.encryption_key, "cipher": volume.cipher, "key_size": volume.key_size}


def encryption_of(volume: Volume) -> VolumeEncryption | None:
    """Return a volume's encryption with its decrypted key; None if the volume is not encrypted.

    Raises InvalidToken if no credential key decrypts the volume's key.
    """
    if not volume.encryption_key:
        return None
    key = keys.CREDENTIALS.current().decrypt(volume.encryption_key.encode()).decode()
    return VolumeEncryption(key=key, cipher=volume.cipher, key_size=volume.key_size)


def data_key_of(backup: Backup) -> bytes:
    """Return the 32-byte key of a backup's data; empty if the volume was not encrypted.

    Raises GoneError if no credential key decrypts the backup's key.
    """
    if not backup.encryption_key:
        return b""
    try:
        key = keys.CREDENTIALS.current().decrypt(backup.encryption_key.encode())
    except InvalidToken as error:
        raise GoneError(f"The key of backup {backup.id} cannot be decrypted in this cloud.") from error
    return hashlib.sha256(b"novella backup\0" + key).digest()


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the keys of all volumes and backups again, with the credential key ``newest`` (see
    ``identity.encryption.encrypted``).

    Returns the number of changed rows, and the ids of rows whose key no credential key decrypts.
    """
    changed, lost = 0, []
    for model in (Volume, Backup):
        rows = model._default_manager.exclude(encryption_key="")
        for key, kept in list(rows.values_list("id", "encryption_key")):
            try:
                fresh = renewed(kept, newest)
            except InvalidToken:
                lost.append(str(key))
                continue
            if fresh != kept:
                changed += rows.filter(id=key, encryption_key=kept).update(encryption_key=fresh)
    return changed, lost
