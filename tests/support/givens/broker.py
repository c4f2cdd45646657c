"""`broker`: a broker over the open store `store`; `PushConsumer`, `Producer` and `Message` are imported."""

import atexit

from mqstore import Message, MessageStore  # noqa: F401 - a page's block uses the names
from mqstore.client import EmbeddedBroker, Producer, PushConsumer  # noqa: F401 - as above

store = MessageStore.open("data")
atexit.register(store.close)
broker = EmbeddedBroker(store)
atexit.register(broker.close)
