"""RocketMQ's client in C++ (the wheel `rocketmq`) as published: sends, or consumes until it is ended.

    python client.py NAME_SERVER send TOPIC GROUP BODY...
    python client.py NAME_SERVER consume TOPIC GROUP

It prints a JSON object a line: of each send its status, of each message what it was given. A body "again"
fails at its first delivery.
"""

import json
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage
from rocketmq.ffi import _CConsumeStatus

SEND_STATUS = {0: "SEND_OK", 1: "FLUSH_DISK_TIMEOUT", 2: "FLUSH_SLAVE_TIMEOUT", 3: "SLAVE_NOT_AVAILABLE"}


def show(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def send(name_server, topic, group, bodies):
    producer = Producer(group)
    producer.set_namesrv_addr(name_server)
    producer.start()
    for body in bodies:
        message = Message(topic)
        message.set_tags("A")
        message.set_keys(body)
        message.set_body(body)
        show(status=SEND_STATUS[int(producer.send_sync(message).status)])
    producer.shutdown()


def consume(name_server, topic, group):
    def on_message(_consumer, handle):
        message = RecvMessage(handle)
        body, times = message.body.decode(), message.reconsume_times
        show(body=body, times=times)
        has_failed = (body, times) == ("again", 0)
        return (_CConsumeStatus.RECONSUME_LATER if has_failed else _CConsumeStatus.CONSUME_SUCCESS).value

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(topic, None)
    # What the wheel makes of an exception is a success: so the library's own callback.
    consumer._register_callback(on_message)
    consumer.start()
    threading.Event().wait()


def main():
    name_server, operation, topic, group, *bodies = sys.argv[1:]
    if operation == "send":
        send(name_server, topic, group, bodies)
    else:
        consume(name_server, topic, group)


main()
