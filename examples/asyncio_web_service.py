"""A web service with asyncio: each POST is stored before it is answered, and a task works off what came in.

    python examples/asyncio_web_service.py

`await producer.send_async(...)` and `async for message in consumer` leave the event loop free; threads of
mqstore wait for the disk. Any web framework takes the place of the few lines of HTTP here.
"""

import asyncio
import tempfile

from mqstore import Message, MessageStore, StoreConfig
from mqstore.client import EmbeddedBroker, LitePullConsumer, Producer

MAILS = ["welcome", "invoice", "reminder"]


async def answer(producer: Producer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Store the body of one POST, then answer 202."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].split()[0])
    result = await producer.send_async(Message("mails", await reader.readexactly(length)))
    writer.write(f"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nX-Id: {result.msg_id}\r\n\r\n".encode())
    await writer.drain()
    writer.close()


async def send_mails(broker: EmbeddedBroker) -> None:
    """The task that works off what came in. A mail counts as sent when the next one is asked for."""
    async with LitePullConsumer(broker, "mailer") as consumer:
        consumer.subscribe("mails")
        sent = 0
        async for message in consumer:
            print(f"mail sent: {message.body.decode()}")
            sent += 1
            if sent == len(MAILS):
                return


async def post(port: int, body: str) -> str:
    """What a browser does; returns the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /mails HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    status = await reader.readline()
    writer.close()
    return status.decode().strip()


async def serve(broker: EmbeddedBroker, producer: Producer) -> None:
    """Run the service until the mails are sent."""
    server = await asyncio.start_server(lambda *streams: answer(producer, *streams), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        mailer = asyncio.create_task(send_mails(broker))
        answers = [await post(port, body) for body in MAILS]
        await mailer
    print(f"answered: {', '.join(sorted(set(answers)))}")


def main() -> None:
    # One queue keeps the mails in their order. SYNC_FLUSH: after 202 a power cut loses nothing.
    config = StoreConfig(flush_disk_type="SYNC_FLUSH", default_topic_queue_nums=1)
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(directory, config) as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "web") as producer,
    ):
        asyncio.run(serve(broker, producer))


if __name__ == "__main__":
    main()
