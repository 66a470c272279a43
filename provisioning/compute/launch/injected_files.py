"""Files that a launch or a rebuild writes into a guest (``personality``)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import InjectedFile
from provisioning.quotas.services.limits import check_each


def check_files(files: Sequence[InjectedFile], limits: Mapping[str, int]) -> list[dict[str, str]]:
    """Return the files as an instance keeps them: ``[{"path", "contents"}]``, contents in base64.

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
