"""`store`: an open store; `message`: one that it holds."""

import atexit

from mqstore import Message, MessageStore

store = MessageStore.open("data")
atexit.register(store.close)
place = store.put_message(Message("orders", b"42.00"))
message = store.look_message_by_offset(place.physical_offset)
