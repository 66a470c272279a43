"""Data of a guest for its first boot: user data, injected files and a public key."""

import base64
import binascii
from collections.abc import Mapping, Sequence

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.launch.request import InjectedFile
from provisioning.compute.models import KeyPair
from provisioning.quotas.services.limits import check_each

MAX_USER_DATA = 65_535
"""Bytes of base64, as in Nova's schema."""


def check_user_data(user_data: str | None) -> None:
    """Raise InvalidInputError for user data that is too large or not base64."""
    if user_data is None:
        return
    if len(user_data) > MAX_USER_DATA:
        raise InvalidInputError(
            f"Invalid input for user_data: it has {len(user_data)} bytes of base64;"
            f" at most {MAX_USER_DATA} are allowed.",
            field="user_data",
        )
    try:
        base64.b64decode("".join(user_data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError("Invalid input for user_data: it is not base64.", field="user_data") from error


def check_files(files: Sequence[InjectedFile], limits: Mapping[str, int]) -> list[dict[str, str]]:
    """Return the files as an instance stores them: ``[{"path", "contents"}]``, contents in base64.

    Raises InvalidInputError for ``personality``, OverQuotaError for too many or too large ones.
    """
    check_each(limits, "injected_files", len(files))
    kept = []
    for file in files:
        check_each(limits, "injected_file_path_bytes", len(file.path.encode()))
        contents = "".join(file.contents.split())
        try:
            check_each(limits, "injected_file_content_bytes", len(base64.b64decode(contents, validate=True)))
        except (binascii.Error, ValueError) as error:
            raise InvalidInputError(
                f"Personality content for {file.path[:64]} cannot be decoded", field="personality"
            ) from error
        if not file.path or any(character < " " for character in file.path):
            raise InvalidInputError(
                "Bad personality format: a path must have printable characters.", field="personality"
            )
        kept.append({"path": file.path, "contents": contents})
    return kept


def check_key_pair(context: RequestContext, name: str | None) -> KeyPair | None:
    """Return the caller's key pair of this name, None for None. Raises InvalidInputError when it does not exist."""
    if name is None:
        return None
    try:
        return selectors.key_pair_for(context, name)
    except NotFoundError as error:
        raise InvalidInputError(f"Key pair {name!r} could not be found.", field="key_name") from error
