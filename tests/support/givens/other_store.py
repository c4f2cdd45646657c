"""`other_store`: an open store beside the one of the page."""

import atexit

from mqstore import MessageStore

other_store = MessageStore.open("other-data")
atexit.register(other_store.close)
