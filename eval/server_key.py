"""The API key of the evaluation server."""

from collections.abc import Awaitable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from vllm.entrypoints.serve.utils.server_utils import AuthenticationMiddleware


class RequireKey(AuthenticationMiddleware):
    """Asks for the key everywhere but at `/health`; vLLM's own asks for it below `/v1` and lets `/invocations` pass."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on, or answer 401."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] not in ("http", "websocket") or path == "/health" or self.verify_token(Headers(scope=scope)):
            return self.app(scope, receive, send)
        refusal = {"error": {"message": "wrong or missing API key", "type": "Unauthorized", "code": 401}}
        return JSONResponse(refusal, status_code=401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
