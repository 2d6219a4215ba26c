"""What the endpoint's handlers share: an answer without secrets; a fault, or what is wrong with a body, in an answer."""

from __future__ import annotations

import hmac
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from base.fault import Fault
from base.secrets import hidden_in
from stepwell.service.compared import COMPARED


class JsonAnswer(JSONResponse):
    """An answer in JSON, in whose texts no secret stands that this process knows. Keys and COMPARED stay as they are."""

    def render(self, content: Any) -> bytes:
        return bytes(super().render(hidden_in(content, COMPARED)))


def has_token(request: Request, token: str) -> bool:
    """Whether the request brings this bearer token. The comparison takes equally long whatever was given."""
    given = request.headers.get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


def validation_text(fault: ValidationError) -> str:
    """What is wrong with a body, in a line for each field."""
    return "\n".join(
        f"{'.'.join(map(str, error['loc'])) or 'the body'}: {error['msg']}"
        for error in fault.errors(include_url=False, include_input=False, include_context=False)
    )


def parts_of(fault: Fault) -> dict[str, str]:
    """The fault's text with its place, such as the file and the line, and apart from it what to do."""
    text = str(fault)
    if not fault.what_to_do or not text.endswith(fault.what_to_do):
        return {"error": text, "what_to_do": ""}
    return {"error": text.removesuffix(fault.what_to_do).rstrip(), "what_to_do": fault.what_to_do}
