"""Questions to a model, over the OpenAI API."""

from __future__ import annotations

import base64
import json
import mimetypes
import os
import time
import uuid
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

_TIMEOUT = 600
#: How long to wait before another try, when the service has too much to do.
_PAUSES = (0.5, 2.0)


class NoAnswer(Exception):
    """The model could not be asked; the text says why."""


def look(picture: bytes, kind: str, task: str) -> str:
    """What the model says about a picture (its bytes, and their MIME type)."""
    url = f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    content = [{"type": "text", "text": task}, {"type": "image_url", "image_url": {"url": url}}]
    question = {
        "model": _setting("OPENAI_MODEL", "gpt-4o"),
        "messages": [{"role": "user", "content": content}],
        "max_tokens": _max_tokens(),
    }
    answer = _post("/chat/completions", json.dumps(question).encode(), "application/json")
    try:
        return str(answer["choices"][0]["message"]["content"])
    except (LookupError, TypeError):
        raise NoAnswer(f"the service answered {answer}") from None


def listen(sound: bytes, name: str, model: str) -> str:
    """What is said in a sound file, in English; its name tells the service what kind of sound it is."""
    boundary = uuid.uuid4().hex
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    quoted = name.replace("\\", "_").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        f"Content-Type: {kind}\r\n\r\n"
    )
    body = b"".join((head.encode(errors="replace"), sound, f"\r\n--{boundary}--\r\n".encode()))
    answer = _post("/audio/translations", body, f"multipart/form-data; boundary={boundary}")
    try:
        return str(answer["text"])
    except (LookupError, TypeError):
        raise NoAnswer(f"the service answered {answer}") from None


def _post(path: str, body: bytes, kind: str) -> Any:
    base = _setting("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise NoAnswer(f"OPENAI_BASE_URL must begin with http:// or https://, and it is {base}")
    headers = {"Content-Type": kind, "Authorization": f"Bearer {_key()}"}
    for pause in (*_PAUSES, None):
        request = Request(base + path, body, headers)  # noqa: S310  the scheme was checked
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                return _parsed(response.read())
        except HTTPError as error:
            with error:
                said = _parsed(error.read())
            if pause is None or (error.code != 429 and error.code < 500):
                raise NoAnswer(f"Error code: {error.code} - {said}") from None
            time.sleep(pause)
        except URLError as error:
            raise NoAnswer(f"Connection error: {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"Connection error: {error}") from None
    raise AssertionError("the last try returns or raises")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _max_tokens() -> int:
    text = _setting("MAX_TOKEN", "500")
    try:
        return int(text)
    except ValueError:
        raise NoAnswer(f"MAX_TOKEN must be a whole number, and it is {text}") from None


def _key() -> str:
    return _setting("OPENAI_API_KEY", "") or _setting("SANDBOX_ENV_OPENAI_API_KEY", "")


def _setting(name: str, default: str) -> str:
    # A kernel has no settings but its environment, and cells may change it.
    return os.environ.get(name) or default  # noqa: TID251
