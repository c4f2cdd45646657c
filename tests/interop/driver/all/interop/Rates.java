package interop;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * How many messages a second RocketMQ's own clients send and consume, and how long each send takes.
 *
 * A send counts when it was answered. Times are in microseconds, of a send or of a batch.
 */
public final class Rates {
    private static final int MOST_TIMES = 4_000_000;

    private final String topic;
    private final String way;
    private final int threads;
    private final int underWay;
    private final int batch;
    private final int count;
    private final byte[] body;
    private final long milliseconds;
    private final AtomicInteger failed = new AtomicInteger();
    private final long[] times = new long[MOST_TIMES];
    private final AtomicInteger answered = new AtomicInteger();

    Rates(JSONObject request) {
        topic = request.getString("topic");
        way = request.getString("way");
        threads = request.getIntValue("threads");
        underWay = request.getIntValue("under_way");
        batch = request.getIntValue("batch");
        count = request.getIntValue("count");
        body = new byte[request.getIntValue("bytes")];
        Arrays.fill(body, (byte) 'x');
        milliseconds = request.getLongValue("milliseconds");
    }

    /** Sends for a time: "sync" and "batch" by threads that wait, "async" with so many under way. */
    Object send(DefaultMQProducer producer) throws Exception {
        Semaphore room = new Semaphore(Math.max(1, underWay));
        List<Thread> workers = new ArrayList<>();
        long begin = System.nanoTime();
        long end = begin + milliseconds * 1_000_000L;
        for (int at = 0; at < Math.max(1, threads); at++) {
            Thread worker = new Thread(() -> {
                try {
                    while (System.nanoTime() < end) {
                        sendOnce(producer, room);
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    failed.incrementAndGet();
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        room.acquire(Math.max(1, underWay));
        double seconds = (System.nanoTime() - begin) / 1e9;
        long messages = (long) answered.get() * ("batch".equals(way) ? batch : 1);
        long[] sorted = Arrays.copyOf(times, Math.min(answered.get(), MOST_TIMES));
        Arrays.sort(sorted);
        JSONObject answer = new JSONObject();
        answer.put("rate", Math.round(messages / seconds));
        answer.put("messages", messages);
        answer.put("p50_us", sorted.length == 0 ? -1 : sorted[sorted.length / 2] / 1_000);
        answer.put("p99_us", sorted.length == 0 ? -1 : sorted[(int) (sorted.length * 0.99)] / 1_000);
        answer.put("failed", failed.get());
        return answer;
    }

    private void sendOnce(DefaultMQProducer producer, Semaphore room) throws Exception {
        long before = System.nanoTime();
        switch (way) {
            case "sync":
                producer.send(new Message(topic, body));
                note(before);
                break;
            case "batch":
                List<Message> messages = new ArrayList<>(batch);
                for (int at = 0; at < batch; at++) {
                    messages.add(new Message(topic, body));
                }
                producer.send(messages);
                note(before);
                break;
            case "async":
                room.acquire();
                producer.send(new Message(topic, body), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        note(before);
                        room.release();
                    }

                    @Override
                    public void onException(Throwable error) {
                        failed.incrementAndGet();
                        room.release();
                    }
                });
                break;
            default:
                throw new IllegalArgumentException("no such way: " + way);
        }
    }

    private void note(long before) {
        int at = answered.getAndIncrement();
        if (at < MOST_TIMES) {
            times[at] = System.nanoTime() - before;
        }
    }

    /** Consumes so many messages of a topic as a new group, from its first on. */
    Object consume(DefaultMQPushConsumer consumer, String nameServer) throws Exception {
        CountDownLatch all = new CountDownLatch(count);
        AtomicLong first = new AtomicLong();
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            messages.forEach(message -> all.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean isDone = all.await(120, TimeUnit.SECONDS);
        double seconds = (System.nanoTime() - first.get()) / 1e9;
        consumer.shutdown();
        JSONObject answer = new JSONObject();
        answer.put("rate", Math.round((count - all.getCount()) / seconds));
        answer.put("messages", count - all.getCount());
        answer.put("failed", isDone ? 0 : all.getCount());
        return answer;
    }
}
