"""The state of the broker as mqadmin asks for it: figures (28), settings (26).

mqadmin's clusterList reads some of the figures as numbers and fails without them, so those of parts that this
broker does not have are 0. Rates are 0: `mqstore top` has them.

Threads: a worker's. Source: docs/spec/remoting.md section 13; AdminBrokerProcessor#prepareRuntimeInfo.
"""

from typing import Final

from mqstore import __version__
from mqstore.remoting import fastjson
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.request import Request
from mqstore.store.files.os_file_system import OsFileSystem

__all__ = ["BrokerAdmin"]

_ZERO: Final = (
    *("sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "ackThreadPoolQueueSize"),
    *("sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills"),
    *("ackThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize"),
    *("queryThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills", "timerReadBehind"),
    *("timerOffsetBehind", "timerCongestNum", "remainTransientStoreBufferNumbs", "dispatchBehindBytes"),
    *("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning"),
    *("msgGetTotalTodayMorning",),
)
_NO_RATE: Final = "0.0 0.0 0.0"
_RATES: Final = ("putTps", "getTransferredTps", "getTotalTps", "getFoundTps", "getMissTps")
_TIMER_RATES: Final = ("timerEnqueueTps", "timerDequeueTps")


class BrokerAdmin:
    """Tells of the broker."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store
        self._settings = parts.settings
        self._started_ms = parts.store.clock.now_ms()

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: in_worker(self.runtime_info),
            RequestCode.GET_BROKER_CONFIG: in_worker(self.config),
        }

    def runtime_info(self, request: Request) -> Answer:
        """28."""
        stats = self._store.stats()
        disk = OsFileSystem().disk_usage(self._store.path)
        used = str(round(1 - disk.free_bytes / disk.total_bytes, 4))
        put_total = sum(stats.counters.topic_put_nums.values())
        got_total = sum(stats.counters.group_get_nums.values())
        table = {
            **dict.fromkeys(_ZERO, "0"),
            **dict.fromkeys(_RATES, _NO_RATE),
            **dict.fromkeys(_TIMER_RATES, "0.0"),
            "bootTimestamp": str(self._started_ms),
            "brokerActive": "true",
            "brokerVersion": "513",
            "brokerVersionDesc": f"mqstore_{__version__}",
            "commitLogDirCapacity": f"Total : {disk.total_bytes} bytes, Free : {disk.free_bytes} bytes.",
            "commitLogDiskRatio": used,
            "commitLogMaxOffset": str(stats.max_offset),
            "commitLogMinOffset": str(stats.min_offset),
            "consumeQueueDiskRatio": used,
            "dispatchBehindBytes": str(stats.dispatch_behind_bytes),
            "earliestMessageTimeStamp": str(self._store.get_earliest_message_time()),
            "msgGetTotalTodayNow": str(got_total),
            "msgPutTotalTodayNow": str(put_total),
            "runtime": f"[ {stats.messages} messages in {stats.queues} queues ]",
        }
        return Answer(body=fastjson.encode({"table": dict(sorted(table.items()))}))

    def config(self, request: Request) -> Answer:
        """26: the settings under RocketMQ's names, as a text of properties."""
        settings, config = self._settings, self._store.config
        values = {
            "brokerClusterName": settings.cluster_name,
            "brokerName": settings.broker_name,
            "brokerId": "0",
            "brokerIP1": settings.address.rpartition(":")[0],
            "listenPort": settings.address.rpartition(":")[2],
            "autoCreateTopicEnable": str(config.auto_create_topic_enable).lower(),
            "flushDiskType": config.flush_disk_type,
            "messageDelayLevel": config.message_delay_level,
            "storePathRootDir": str(self._store.path),
        }
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        return Answer(body=text.encode())
