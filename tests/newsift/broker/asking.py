"""Requests answered without a socket: encoded, read, handled, answer_frame and decoded again."""

import asyncio
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry

from newsift.broker.handlers import TABLE
from newsift.broker.settings import Cluster, Settings
from newsift.broker.wire import Client, answer_frame, read_call

CLIENT = Client("127.0.0.1", "broker.test", 9092)


class Asking:
    def __init__(self, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.cluster = Cluster.of(Settings(**settings))

    def close(self) -> None:
        self.cluster.groups.forget_members()
        self.loop.close()

    def ask(self, request: Any, version: int | None = None) -> Any:
        api = TABLE[request.API_KEY]
        request.API_VERSION = api.high if version is None else version
        request.with_header(correlation_id=9, client_id="asking")
        call = read_call(bytes(request.encode(header=True)), TABLE, CLIENT)
        response = self.loop.run_until_complete(api.handler(self.cluster, call))
        if response is None:
            return None
        kind = ResponseClassRegistry.get_response_class(request.header)
        return kind.decode(answer_frame(call, response), header=True, framed=True)
