"""What can go wrong with images, in words for their users."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NovellaError


class ImageContentError(InvalidInputError):
    """The data is not what it is declared to be, or opening it would not be safe."""

    code = "image_content"


class InterruptedUploadError(InvalidInputError):
    """The data stopped before its end: the sender went away."""

    code = "interrupted_upload"


class NoImageDataError(NotFoundError):
    """The image exists, but nothing has been uploaded to it yet."""

    code = "no_image_data"


class ImportUriError(InvalidInputError):
    """The URL is not one that images may be fetched from."""

    code = "import_uri"


class DownloadError(NovellaError):
    """The file at the URL could not be fetched whole."""

    code = "download"


class UploadOffsetError(ConflictError):
    """A part of an upload does not begin where the data ends, at byte ``offset``."""

    code = "upload_offset"

    def __init__(self, offset: int) -> None:
        super().__init__(f"The data that arrived ends at byte {offset}.")
        self.offset = offset
