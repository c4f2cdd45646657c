"""One of several stores on disks of their own, each of which can fail by itself."""

from pathlib import Path

from mqstore import MessageStore
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.store.errors import StoreFull
from mqstore.store.files.file_system import FileSystem
from support.disks.medium import Medium
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore, kill

__all__ = ["Shard"]

PATH = Path("/store")
SETTINGS = {"flush_disk_type": "SYNC_FLUSH", "key_index_enable": False}


class Shard:
    """A store on a disk of its own."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        self.name = name
        self.clock = clock
        self.disk = SimulatedDisk(clock=clock)
        self.store = self.opened(self.disk)
        self.store.topics.create("orders", 2)
        self.broker = EmbeddedBroker(self.store, name)

    def opened(self, disk: FileSystem) -> MessageStore:
        return SmallStore(disk, PATH, clock=self.clock).open(**SETTINGS)

    def fill_up(self) -> None:
        """There is no room for the next window of any file, and none for a new one."""

        def before(what: str, path: Path) -> None:
            if what in ("reserve", "create"):
                raise StoreFull(path, 1, "No space left on device")

        self.disk.before = before

    def break_down(self) -> None:
        """Syncs of the log fail."""

        def before(what: str, path: Path) -> None:
            if what == "sync" and path.parent.name == "commitlog":
                raise OSError(5, "Input/output error", str(path))

        self.disk.before = before

    def after_kill(self) -> MessageStore:
        """The store again, after the process was killed."""
        kill(self.store)
        self.disk.kill()
        return self.opened(self.disk)

    def after_power_cut(self) -> MessageStore:
        """The store again, on a disk that lost all that it may lose."""
        kill(self.store)
        medium = Medium(self.disk)
        for step in self.disk.steps:
            medium.apply(step)
        units = medium.units()
        return self.opened(SimulatedDisk(medium.image(units, [0] * len(units)), clock=self.clock))
