"""`/plugins`: what a box is made of, and how each part is."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.plugins import Plugins
from glovebox.http.endpoints import Answer, Endpoint, Parameter
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.plugins import PluginInfo


def plugin_endpoints(plugins: Plugins) -> list[Endpoint]:
    """What is served of plugins."""

    async def every(request: Request) -> Response:
        return json_response(await plugins.examine())

    async def one(request: Request) -> Response:
        return json_response(await plugins.life(request.path_params["name"]).examine())

    async def restart(request: Request) -> Response:
        life = plugins.life(request.path_params["name"])
        await life.restart()
        return json_response(await life.examine())

    path = (Parameter("name", {"type": "string"}, "The name of the plugin."),)
    info = Answer("The plugin.", PluginInfo)
    unknown = Answer("No plugin of that name is loaded.", ErrorBody)
    return [
        Endpoint(
            "GET", "/plugins", every, "The plugins of the box and how they are",
            {200: Answer("All of them, in the order they were loaded.",
                         {"type": "array", "items": {"$ref": "#/components/schemas/PluginInfo"}})},
        ),
        Endpoint(
            "GET", "/plugins/{name}", one, "A plugin and how it is",
            {200: info, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/plugins/{name}/restart", restart, "Stop a plugin and start it anew",
            {200: info, 404: unknown,
             409: Answer("The box cannot do without it, not even for a moment.", ErrorBody),
             500: Answer("There is nothing to start.", ErrorBody)},
            path_parameters=path,
        ),
    ]  # fmt: skip
