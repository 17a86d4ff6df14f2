"""Finding the uploaded file in a multipart body as it arrives; nothing is kept."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from glovebox.box.files.uploads import FileBegins, FileEnds, Piece
from glovebox.errors import RequestError

MAX_PARTS = 1000
MAX_HEADERS = 16
MAX_HEADER_SIZE = 16 << 10

_MALFORMED = "There was an error parsing the body"


class FileParts:
    """Turns the bytes of a body into the pieces of the files in one field; other parts are passed over.

    Raises:
        RequestError: the body is not what its content type says.
    """

    def __init__(self, content_type: str, field: str) -> None:
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if not boundary:
            raise RequestError("Missing boundary in multipart.")
        self._field = field
        self._pieces: list[Piece] = []
        self._parts = 0
        self._name = self._value = self._disposition = b""
        self._wanted = False
        self._empty = True
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_ends,
                    "on_end": self._body_ends,
                },
                max_header_count=MAX_HEADERS,
                max_header_size=MAX_HEADER_SIZE,
            )
        except FormParserError as error:
            raise RequestError(_MALFORMED) from error

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that these bytes bring."""
        self._empty = self._empty and not data
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise RequestError(_MALFORMED) from error
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self) -> None:
        """Say that nothing more comes."""
        if not self._ended and not self._empty:
            raise RequestError(_MALFORMED)

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RequestError(f"Too many parts. Maximum number of parts is {MAX_PARTS}.")
        self._disposition = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name = self._value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise RequestError('The Content-Disposition header field "name" must be provided.')
        filename = options.get(b"filename")
        self._wanted = filename is not None and _text(options[b"name"]) == self._field
        if self._wanted and filename is not None:
            self._pieces.append(FileBegins(_text(filename)))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._wanted:
            self._pieces.append(data[start:end])

    def _part_ends(self) -> None:
        if self._wanted:
            self._pieces.append(FileEnds())

    def _body_ends(self) -> None:
        self._ended = True


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
