package bench;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.ByteBuffer;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;

/** Messages looked for by tag, by key and by time, in queue 0 of topic orders. */
final class Looking {
    private final DefaultMessageStore store;
    private long touched;

    Looking(DefaultMessageStore store) {
        this.store = store;
    }

    /** Reads the whole queue for one tag: the store compares hashes, the client then the tags themselves. */
    double byTagSeconds(JSONObject request) throws Exception {
        String tag = request.getString("tag");
        DefaultMessageFilter filter = new DefaultMessageFilter(FilterAPI.buildSubscriptionData("orders", tag));
        int atOnce = request.getIntValue("at_once");
        long messagesInQueue = store.getMaxOffsetInQueue("orders", 0);
        long begun = System.nanoTime();
        for (long offset = 0; offset < messagesInQueue; ) {
            GetMessageResult result = store.getMessage("billing", "orders", 0, offset, atOnce, filter);
            for (ByteBuffer record : result.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(record, true, false);
                if (tag.equals(message.getTags())) {
                    touched += message.getBody()[0];
                }
            }
            offset = result.getNextBeginOffset();
            result.release();
        }
        return (System.nanoTime() - begun) / 1e9;
    }

    double byKeySeconds(JSONObject request) {
        JSONArray keys = request.getJSONArray("keys");
        String[] asked = keys.toArray(new String[0]);
        long found = 0;
        long begun = System.nanoTime();
        for (String key : asked) {
            QueryMessageResult result = store.queryMessage("orders", key, 32, 0, Long.MAX_VALUE);
            for (ByteBuffer record : result.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(record, true, false);
                if (key.equals(message.getKeys())) {
                    touched += message.getBody()[0];
                    found++;
                }
            }
            result.release();
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        if (found < asked.length) {
            throw new IllegalStateException("RocketMQ found " + found + " of " + asked.length + " keys");
        }
        return seconds;
    }

    double byTimeSeconds(JSONObject request) {
        long[] times = request.getJSONArray("times").stream().mapToLong(ms -> ((Number) ms).longValue()).toArray();
        long begun = System.nanoTime();
        for (long ms : times) {
            touched += store.getOffsetInQueueByTime("orders", 0, ms);
        }
        return (System.nanoTime() - begun) / 1e9;
    }
}
