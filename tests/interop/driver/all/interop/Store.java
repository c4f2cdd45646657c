package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * One open store: a broker that is initialized, so that its hooks, its state files and its send-back are the
 * real ones, but not started, so that it serves nobody and does nothing by itself. Its store is started.
 */
final class Store {
    private static final long PATIENCE_MS = 60_000;
    /** Where a record states its physical offset. */
    private static final int PHYSICAL_OFFSET_POSITION = 28;
    private static final int BLANK_MAGIC_CODE = 0xCBD43194;

    private final BrokerController broker;
    private final DefaultMessageStore store;
    private final Version version;

    /** Opens the directory "path" with the settings "store" and "broker", in RocketMQ's own names. */
    Store(JSONObject request) throws Exception {
        MessageStoreConfig storeConfig = new MessageStoreConfig();
        BrokerConfig brokerConfig = new BrokerConfig();
        MixAll.properties2Object(properties(request.getJSONObject("store")), storeConfig);
        MixAll.properties2Object(properties(request.getJSONObject("broker")), brokerConfig);
        String path = request.getString("path");
        storeConfig.setStorePathRootDir(path);
        storeConfig.setStorePathCommitLog(path + "/commitlog");
        storeConfig.setHaListenPort(0);
        NettyServerConfig serverConfig = new NettyServerConfig();
        serverConfig.setListenPort(10911);
        broker = new BrokerController(brokerConfig, serverConfig, new NettyClientConfig(), storeConfig);
        if (!broker.initialize()) {
            throw new IllegalStateException("RocketMQ refuses to open " + path);
        }
        store = (DefaultMessageStore) broker.getMessageStore();
        version = new Version(broker, store);
        version.start();
        awaitDispatch();
    }

    private static Properties properties(JSONObject settings) {
        Properties properties = new Properties();
        settings.forEach((name, value) -> properties.setProperty(name, String.valueOf(value)));
        return properties;
    }

    /** Stops as a broker does: state files, log, queues, index, checkpoint, no abort file. */
    void close() {
        broker.shutdown();
    }

    JSONObject range() {
        JSONObject range = new JSONObject();
        range.put("min_offset", store.getMinPhyOffset());
        range.put("max_offset", store.getMaxPhyOffset());
        return range;
    }

    private void awaitDispatch() throws InterruptedException {
        long giveUp = System.currentTimeMillis() + PATIENCE_MS;
        while (store.dispatchBehindBytes() > 0) {
            if (System.currentTimeMillis() > giveUp) {
                throw new IllegalStateException("the dispatch stands still");
            }
            Thread.sleep(1);
        }
    }

    /** Puts messages one after another; one with "batch" is put as a batch of those. */
    List<JSONObject> put(JSONArray messages) throws Exception {
        List<JSONObject> results = new ArrayList<>();
        for (int at = 0; at < messages.size(); at++) {
            JSONObject message = messages.getJSONObject(at);
            PutMessageResult result;
            if (message.containsKey("batch")) {
                MessageExtBatch batch = Messages.batch(message);
                result = store.putMessages(batch);
            } else {
                result = store.putMessage(Messages.inner(message));
            }
            results.add(described(result));
        }
        awaitDispatch();
        return results;
    }

    private static JSONObject described(PutMessageResult result) {
        JSONObject described = new JSONObject();
        described.put("status", result.getPutMessageStatus().name());
        AppendMessageResult appended = result.getAppendMessageResult();
        if (appended != null) {
            described.put("physical_offset", appended.getWroteOffset());
            described.put("queue_offset", appended.getLogicsOffset());
            described.put("size_bytes", appended.getWroteBytes());
            described.put("store_timestamp", appended.getStoreTimestamp());
        }
        return described;
    }

    /** Every queue with its range and its entries, blank ones too: [physical offset, size, tags code]. */
    List<JSONObject> queues() {
        List<JSONObject> queues = new ArrayList<>();
        for (Map.Entry<String, ? extends Map<Integer, ?>> topic : store.getConsumeQueueTable().entrySet()) {
            for (Map.Entry<Integer, ?> queue : topic.getValue().entrySet()) {
                ConsumeQueue consumeQueue = (ConsumeQueue) queue.getValue();
                JSONObject described = new JSONObject();
                described.put("topic", topic.getKey());
                described.put("queue_id", queue.getKey());
                described.put("min_offset", store.getMinOffsetInQueue(topic.getKey(), queue.getKey()));
                described.put("max_offset", consumeQueue.getMaxOffsetInQueue());
                described.put("entries", entries(consumeQueue));
                queues.add(described);
            }
        }
        return queues;
    }

    private static List<long[]> entries(ConsumeQueue queue) {
        List<long[]> entries = new ArrayList<>();
        long at = queue.getMinOffsetInQueue();
        while (at < queue.getMaxOffsetInQueue()) {
            SelectMappedBufferResult part = queue.getIndexBuffer(at);
            if (part == null) {
                break;
            }
            ByteBuffer bytes = part.getByteBuffer();
            for (int end = part.getSize() / ConsumeQueue.CQ_STORE_UNIT_SIZE; end > 0; end--, at++) {
                entries.add(new long[] {bytes.getLong(), bytes.getInt(), bytes.getLong()});
            }
            part.release();
        }
        return entries;
    }

    /** All records from an offset on, in the order of the log, the end of the log, and each queue's range. */
    JSONObject news(long from) {
        List<JSONObject> messages = new ArrayList<>();
        long segmentBytes = broker.getMessageStoreConfig().getMappedFileSizeCommitLog();
        long end = store.getMaxPhyOffset();
        for (long at = from; at < end; ) {
            if (isBlank(at)) {
                at += segmentBytes - at % segmentBytes;
            } else {
                MessageExt message = store.lookMessageByOffset(at);
                messages.add(Messages.described(message));
                at += message.getStoreSize();
            }
        }
        List<Object[]> queues = new ArrayList<>();
        store.getConsumeQueueTable().forEach((topic, ofTopic) -> ofTopic.keySet().forEach(queueId -> {
            long maxOffset = ((ConsumeQueue) ofTopic.get(queueId)).getMaxOffsetInQueue();
            queues.add(new Object[] {topic, queueId, store.getMinOffsetInQueue(topic, queueId), maxOffset});
        }));
        JSONObject news = new JSONObject();
        news.put("messages", messages);
        news.put("end", end);
        news.put("queues", queues);
        return news;
    }

    private boolean isBlank(long physicalOffset) {
        SelectMappedBufferResult bytes = store.getCommitLogData(physicalOffset);
        try {
            return bytes.getByteBuffer().getInt(4) == BLANK_MAGIC_CODE;
        } finally {
            bytes.release();
        }
    }

    /** The records at these physical offsets, all fields; null where there is none. */
    List<JSONObject> messages(JSONArray physicalOffsets) {
        List<JSONObject> messages = new ArrayList<>();
        for (int at = 0; at < physicalOffsets.size(); at++) {
            MessageExt message = store.lookMessageByOffset(physicalOffsets.getLongValue(at));
            messages.add(message == null ? null : Messages.described(message));
        }
        return messages;
    }

    /** Pulls, each [group, topic, queue id, offset, max messages, tags]. */
    List<JSONObject> get(JSONArray requests) throws Exception {
        List<JSONObject> results = new ArrayList<>();
        for (int at = 0; at < requests.size(); at++) {
            JSONArray pull = requests.getJSONArray(at);
            MessageFilter filter = version.tagFilter(pull.getString(1), pull.getString(5));
            results.add(described(store.getMessage(
                pull.getString(0), pull.getString(1), pull.getIntValue(2), pull.getLongValue(3),
                pull.getIntValue(4), filter)));
        }
        return results;
    }

    private static JSONObject described(GetMessageResult result) {
        List<Long> physicalOffsets = new ArrayList<>();
        for (SelectMappedBufferResult message : result.getMessageMapedList()) {
            physicalOffsets.add(message.getByteBuffer().getLong(PHYSICAL_OFFSET_POSITION));
        }
        JSONObject described = new JSONObject();
        described.put("status", result.getStatus().name());
        described.put("next_begin_offset", result.getNextBeginOffset());
        described.put("min_offset", result.getMinOffset());
        described.put("max_offset", result.getMaxOffset());
        described.put("physical_offsets", physicalOffsets);
        result.release();
        return described;
    }

    /** Offsets by time, each [topic, queue id, timestamp, LOWER or UPPER]. */
    List<Long> byTime(JSONArray requests) {
        List<Long> offsets = new ArrayList<>();
        for (int at = 0; at < requests.size(); at++) {
            JSONArray request = requests.getJSONArray(at);
            offsets.add(version.offsetByTime(
                request.getString(0), request.getIntValue(1), request.getLongValue(2), request.getString(3)));
        }
        return offsets;
    }

    /** Key queries, each [topic, key, max messages, begin, end]: the physical offsets that the index names. */
    List<List<Long>> query(JSONArray requests) {
        List<List<Long>> found = new ArrayList<>();
        for (int at = 0; at < requests.size(); at++) {
            JSONArray request = requests.getJSONArray(at);
            QueryMessageResult result = store.queryMessage(
                request.getString(0), request.getString(1), request.getIntValue(2),
                request.getLongValue(3), request.getLongValue(4));
            List<Long> physicalOffsets = new ArrayList<>();
            for (ByteBuffer message : result.getMessageBufferList()) {
                physicalOffsets.add(message.getLong(PHYSICAL_OFFSET_POSITION));
            }
            found.add(physicalOffsets);
            result.release();
        }
        return found;
    }

    /** Sends a message back as a consumer of "group" does; answers the response code. */
    int sendBack(JSONObject request) throws Exception {
        EmbeddedChannel channel = new EmbeddedChannel(new ChannelInboundHandlerAdapter());
        ChannelHandlerContext context = channel.pipeline().firstContext();
        RemotingCommand response = version.sendBack(context, request);
        awaitDispatch();
        return response.getCode();
    }

    /** Lets the delivery run until this many delayed messages have been delivered since the store began. */
    JSONObject deliver(long delivered) throws Exception {
        version.startDelivery();
        long giveUp = System.currentTimeMillis() + PATIENCE_MS;
        try {
            while (deliveredMessages() < delivered) {
                if (System.currentTimeMillis() > giveUp) {
                    throw new IllegalStateException(
                        "delivered " + deliveredMessages() + " of " + delivered + " messages");
                }
                Thread.sleep(10);
            }
        } finally {
            version.stopDelivery();
        }
        awaitDispatch();
        return delayOffsets();
    }

    private long deliveredMessages() {
        return delayOffsets().values().stream().mapToLong(offset -> ((Number) offset).longValue()).sum();
    }

    private JSONObject delayOffsets() {
        return parsed(version.delayOffsets()).getJSONObject("offsetTable");
    }

    Object createTopic(JSONObject request) {
        broker.getTopicConfigManager().updateTopicConfig(
            JSON.toJavaObject(request.getJSONObject("config"), TopicConfig.class));
        return null;
    }

    Object createGroup(JSONObject request) {
        version.createGroup(request.getJSONObject("config"));
        return null;
    }

    Object commit(JSONObject request) {
        broker.getConsumerOffsetManager().commitOffset(
            "127.0.0.1", request.getString("group"), request.getString("topic"),
            request.getIntValue("queue_id"), request.getLongValue("offset"));
        return null;
    }

    /** Writes the four state files, as a timer does every few seconds. */
    Object persist() {
        broker.getTopicConfigManager().persist();
        broker.getSubscriptionGroupManager().persist();
        broker.getConsumerOffsetManager().persist();
        version.persistDelayOffsets();
        return null;
    }

    /** What the four state files hold, as the managers hold it in memory. */
    Map<String, JSONObject> state() {
        Map<String, JSONObject> state = new TreeMap<>();
        state.put("topics", parsed(broker.getTopicConfigManager().encode()));
        state.put("subscriptionGroup", parsed(broker.getSubscriptionGroupManager().encode()));
        state.put("consumerOffset", parsed(broker.getConsumerOffsetManager().encode()));
        state.put("delayOffset", parsed(version.delayOffsets()));
        return state;
    }

    private static JSONObject parsed(String text) {
        return JSON.parseObject(text, Feature.OrderedField);
    }
}
