"""Several processes, one store: `mqstore serve` keeps it, web workers put, one worker consumes.

    python examples/several_processes.py

Here all of it is started by one script. In life the server is a service (docs/serve.md), and each worker has
the two lines with RemoteBroker. A broker of Apache RocketMQ may take the server's place.
"""

import subprocess
import sys
import tempfile
import threading

from mqstore import Message
from mqstore.client import ConsumeFromWhere, ConsumerSettings, Producer, PushConsumer, RemoteBroker
from mqstore.server import running

WORKER = "web worker"
COUNT = 3


def web_worker(name_server: str, number: str) -> None:
    """A process of its own: stores what its requests brought."""
    with RemoteBroker(name_server) as broker, Producer(broker, "web") as producer:
        producer.send(Message("mails", f"from worker {number}".encode()))


def main() -> None:
    """The server, the workers, and a consumer until all mails are there."""
    with running(tempfile.mkdtemp()) as server:
        for number in range(COUNT):
            subprocess.run([sys.executable, __file__, WORKER, server.address, str(number)], check=True)
        received: list[str] = []
        is_done = threading.Event()
        settings = ConsumerSettings(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        with RemoteBroker(server.address) as broker, PushConsumer(broker, "mailer", settings) as consumer:
            consumer.subscribe("mails")

            @consumer.listener
            def send_mail(messages, context):
                received.extend(message.body.decode() for message in messages)
                if len(received) == COUNT:
                    is_done.set()

            consumer.start()
            is_done.wait(60)
        for mail in sorted(received):
            print(mail)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        web_worker(*sys.argv[2:])
    else:
        main()
