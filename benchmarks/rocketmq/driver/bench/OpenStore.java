package bench;

import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** A DefaultMessageStore in a directory, as a broker sets it up: RocketMQ's defaults, but for the flush mode. */
final class OpenStore {
    final DefaultMessageStore store;

    OpenStore(String path, boolean sync) throws Exception {
        this(path, sync, config -> { });
    }

    /** With more settings than the flush mode. */
    OpenStore(String path, boolean sync, Consumer<MessageStoreConfig> settings) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(path);
        config.setStorePathCommitLog(path + "/commitlog");
        config.setFlushDiskType(sync ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        // Any free port: nobody replicates from here.
        config.setHaListenPort(0);
        settings.accept(config);
        store = new DefaultMessageStore(config, new BrokerStatsManager("bench", false),
            (topic, queueId, offset, tagsCode, time, bitMap, properties) -> { },
            new BrokerConfig(), new ConcurrentHashMap<>());
    }

    OpenStore started() throws Exception {
        load();
        store.start();
        return this;
    }

    void load() {
        if (!store.load()) {
            throw new IllegalStateException("RocketMQ cannot load this directory");
        }
    }

    /** Stops as a broker does, but for its three seconds of sleep, which an interrupt cuts short. */
    void close() {
        Thread.currentThread().interrupt();
        store.shutdown();
        Thread.interrupted();
    }

    /** Stops, and deletes all files. */
    void destroy() {
        close();
        store.destroy();
    }
}
