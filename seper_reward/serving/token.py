"""The token that all endpoints except ``/health`` need. Limits on connections and bodies are a proxy's."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.responses import JSONResponse

_OPEN = {"/health"}  # paths that need no token


class TokenGuard:
    """ASGI middleware that answers requests without the token with 401, before their bodies are parsed."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, token.encode()

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        """Pass a request to the app, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not secrets.compare_digest(token, self._expected):
                while (await receive()).get("more_body"):
                    pass  # a client that still sends misses the response
                refusal = JSONResponse({"detail": "expected a bearer token"}, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
