package bench;

import com.alibaba.fastjson.JSONObject;
import java.nio.ByteBuffer;
import java.util.Random;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;

/** A store that is read: the directory that mqstore wrote, which RocketMQ opens as its own. */
final class Reading {
    private final OpenStore open;
    private final long messagesInQueue;
    /** Keeps the JIT from finding out that nobody wants the bodies. */
    private long touched;

    Reading(JSONObject request) throws Exception {
        open = new OpenStore(request.getString("path"), false).started();
        messagesInQueue = open.store.getMaxOffsetInQueue("orders", 0);
    }

    /** Pulls and decodes, from the head of the queue on and again from there when its end is reached. */
    double getSeconds(long messages, int atOnce) {
        long begun = System.nanoTime();
        long offset = 0;
        for (long done = 0; done < messages; ) {
            GetMessageResult result = open.store.getMessage("billing", "orders", 0, offset, atOnce, null);
            if (result.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException("RocketMQ answers " + result.getStatus() + " at " + offset);
            }
            for (ByteBuffer record : result.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(record, true, false);
                touched += message.getBody()[0];
            }
            done += result.getMessageCount();
            offset = result.getNextBeginOffset() < messagesInQueue ? result.getNextBeginOffset() : 0;
            result.release();
        }
        return (System.nanoTime() - begun) / 1e9;
    }

    /** Looks messages up at random; the offsets are drawn before the time is taken. */
    double lookSeconds(int messages, long seed) {
        Random random = new Random(seed);
        ConsumeQueueInterface queue = open.store.findConsumeQueue("orders", 0);
        long[] physicalOffsets = new long[messages];
        for (int at = 0; at < messages; at++) {
            CqUnit entry = queue.get((long) (random.nextDouble() * messagesInQueue));
            physicalOffsets[at] = entry.getPos();
        }
        long begun = System.nanoTime();
        for (long physicalOffset : physicalOffsets) {
            touched += open.store.lookMessageByOffset(physicalOffset).getBody()[0];
        }
        return (System.nanoTime() - begun) / 1e9;
    }

    Looking looking() {
        return new Looking(open.store);
    }

    void close() {
        open.close();
        System.err.println("touched " + touched);
    }
}
