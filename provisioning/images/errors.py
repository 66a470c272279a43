"""Errors about images, with messages for users."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NovellaError


class ImageContentError(InvalidInputError):
    """The data does not match its declared format, or opening it would not be safe."""

    code = "image_content"


class InterruptedUploadError(InvalidInputError):
    """The connection was closed before the end of the data."""

    code = "interrupted_upload"


class NoImageDataError(NotFoundError):
    """The image exists, but nothing has been uploaded to it yet."""

    code = "no_image_data"


class ImportUriError(InvalidInputError):
    """The URL is not allowed for imports."""

    code = "import_uri"


class DownloadError(NovellaError):
    """The download of the file failed."""

    code = "download"


class UploadOffsetError(ConflictError):
    """A part does not begin at byte ``offset``, where the received data ends."""

    code = "upload_offset"

    def __init__(self, offset: int) -> None:
        super().__init__(f"The data that arrived ends at byte {offset}.")
        self.offset = offset
