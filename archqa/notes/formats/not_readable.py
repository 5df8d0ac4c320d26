"""The error of a format; the file's name is added where it is known."""


class NotReadable(Exception):
    """The content is no text of its format. The message continues the file's name."""

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)
