"""`broker`: a broker over the open store `store`; `PushConsumer`, `Producer` and `Message` are imported."""

import atexit

from mqstore import Message, MessageStore
from mqstore.client import EmbeddedBroker, Producer, PushConsumer

store = MessageStore.open("data")
atexit.register(store.close)
broker = EmbeddedBroker(store)
atexit.register(broker.close)
