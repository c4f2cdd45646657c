"""Puts orders into the store `data`, some hundreds a second, until it is ended; prints a line at first."""

import itertools
import time

from mqstore import MessageStore

with MessageStore.open("data") as store:
    for number in itertools.count():
        store.put("orders", bytes(1_000))
        if number % 20 == 0:
            store.put("bills", bytes(200))
            store.put("bills", bytes(200), delay_s=120)
        if number == 100:
            print("at work", flush=True)
        time.sleep(0.002)
