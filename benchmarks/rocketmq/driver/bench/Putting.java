package bench;

import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/** One round of puts into a fresh store: the building of the messages counts, opening and closing do not. */
final class Putting {
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final int QUEUES = 8;

    private final DefaultMessageStore store;
    private final byte[] body;
    private final int batch;
    private final int inFlight;
    private final boolean keys;
    private final boolean attributes;

    Putting(DefaultMessageStore store, JSONObject request) {
        this.store = store;
        body = new byte[request.getIntValue("body_bytes")];
        for (int at = 0; at < body.length; at++) {
            body[at] = (byte) at;
        }
        batch = request.getIntValue("batch");
        inFlight = request.getIntValue("in_flight");
        keys = request.getBooleanValue("keys");
        attributes = request.getBooleanValue("attributes");
    }

    static double seconds(JSONObject request) throws Exception {
        OpenStore open = new OpenStore(request.getString("path"), request.getBooleanValue("sync")).started();
        try {
            Putting putting = new Putting(open.store, request);
            putting.putAll(0, Math.max(1, putting.batch));
            int threads = request.getIntValue("threads");
            return putting.onThreads(threads, request.getIntValue("messages") / threads);
        } finally {
            open.destroy();
        }
    }

    private double onThreads(int threads, int messagesEach) throws Exception {
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch go = new CountDownLatch(1);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> running = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            int queueId = number % QUEUES;
            Thread thread = new Thread(() -> {
                try {
                    ready.countDown();
                    go.await();
                    putAll(queueId, messagesEach);
                } catch (Throwable error) {
                    failure.set(error);
                }
            });
            thread.start();
            running.add(thread);
        }
        ready.await();
        long begun = System.nanoTime();
        go.countDown();
        for (Thread thread : running) {
            thread.join();
        }
        long ended = System.nanoTime();
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return (ended - begun) / 1e9;
    }

    private void putAll(int queueId, int messages) throws Exception {
        if (inFlight > 0) {
            putInFlight(queueId, messages);
        } else if (batch > 1) {
            for (int done = 0; done < messages; done += batch) {
                check(store.putMessages(batchOf(queueId)));
            }
        } else {
            for (int done = 0; done < messages; done++) {
                check(store.putMessage(message(queueId, done)));
            }
        }
    }

    /** One message to one of the queues in turn; with a key, a tag and two properties if they are asked for. */
    void put(int number) {
        int queueId = number % QUEUES;
        check(store.putMessage(attributes ? message(queueId, number) : completed(bare(queueId))));
    }

    private void putInFlight(int queueId, int messages) throws Exception {
        Semaphore room = new Semaphore(inFlight);
        for (int done = 0; done < messages; done++) {
            room.acquire();
            CompletableFuture<PutMessageResult> result = store.asyncPutMessage(message(queueId, done));
            result.thenAccept(put -> {
                check(put);
                room.release();
            });
        }
        room.acquire(inFlight);
    }

    private static void check(PutMessageResult result) {
        if (!result.isOk()) {
            throw new IllegalStateException("RocketMQ answers " + result.getPutMessageStatus());
        }
    }

    private InnerMessage message(int queueId, int number) {
        InnerMessage message = bare(queueId);
        message.setTags("created");
        if (keys || attributes) {
            message.setKeys("order-" + number);
        }
        if (attributes) {
            message.putUserProperty("region", "eu");
            message.putUserProperty("source", "web");
        }
        return completed(message);
    }

    private InnerMessage bare(int queueId) {
        InnerMessage message = new InnerMessage();
        message.setTopic("orders");
        message.setBody(body);
        message.setQueueId(queueId);
        return message;
    }

    /** As the broker makes it from a request. */
    private static InnerMessage completed(InnerMessage message) {
        message.setTagsCode(InnerMessage.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, message.getTags()));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        return message;
    }

    /** As a client encodes it, and as the broker hands it on. */
    private MessageExtBatch batchOf(int queueId) {
        List<Message> messages = new ArrayList<>(batch);
        for (int number = 0; number < batch; number++) {
            Message message = new Message("orders", body);
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_TAGS, "created");
            messages.add(message);
        }
        MessageExtBatch together = new MessageExtBatch();
        together.setTopic("orders");
        together.setQueueId(queueId);
        together.setBody(MessageDecoder.encodeMessages(messages));
        together.setBornTimestamp(System.currentTimeMillis());
        together.setBornHost(HOST);
        together.setStoreHost(HOST);
        return together;
    }
}
