"""The API key of the evaluation server, as a middleware of vLLM's app (its option `middleware`)."""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm.entrypoints.serve.utils.server_utils import AuthenticationMiddleware


class RequireKey(AuthenticationMiddleware):
    """Asks for a key everywhere but at `/health`; vLLM's own asks for it below `/v1` and lets `/invocations` pass."""

    keys: tuple[str, ...] = ()  # any of these opens the server; vLLM makes the middleware, so they are set here before

    def __init__(self, app: ASGIApp):
        super().__init__(app, tokens=list(self.keys))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] not in ("http", "websocket") or path == "/health" or self.verify_token(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        refusal = {"error": {"message": "wrong or missing API key", "type": "Unauthorized", "code": 401}}
        response = JSONResponse(refusal, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)
