package bench;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;
import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * Puts that are due at fixed times, whether or not the one before has ended: latency/arrivals.py in Java.
 *
 * The latency of a put is the time from its due time to its end. Short waits are spun for. A store deletes full
 * segments each second, as mqstore does beside it: RocketMQ would look for them after a minute for the first time.
 */
final class Arriving {
    private static final long SLEEP_ABOVE_NS = 5_000_000;
    private static final long AWAKE_BEFORE_NS = 2_000_000;
    private static final long GIVE_UP_NS = 10_000_000_000L;
    private static final long GREATEST_NS = 3_600_000_000_000L;

    private final Putting putting;
    private int done;

    private Arriving(Putting putting) {
        this.putting = putting;
    }

    static JSONObject answer(JSONObject request) throws Exception {
        long segmentBytes = request.getLongValue("segment_bytes");
        OpenStore open = new OpenStore(request.getString("path"), request.getBooleanValue("sync"), config -> {
            config.setMappedFileSizeCommitLog((int) segmentBytes);
            config.setFileReservedTime(0);
            config.setDeleteWhen("00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23");
        }).started();
        ScheduledExecutorService retention = Executors.newSingleThreadScheduledExecutor();
        try {
            Method clean = DefaultMessageStore.class.getDeclaredMethod("cleanFilesPeriodically");
            clean.setAccessible(true);
            retention.scheduleAtFixedRate(() -> {
                try {
                    clean.invoke(open.store);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }, 1, 1, TimeUnit.SECONDS);
            JSONObject answer = new Arriving(new Putting(open.store, request)).run(request);
            answer.put("segments", (open.store.getMaxPhyOffset() - 1) / segmentBytes + 1);
            return answer;
        } finally {
            retention.shutdown();
            retention.awaitTermination(10, TimeUnit.SECONDS);
            open.destroy();
        }
    }

    private JSONObject run(JSONObject request) {
        double rate = request.getDoubleValue("rate");
        double seconds = request.getDoubleValue("seconds");
        double warmUpSeconds = request.getDoubleValue("warm_up_seconds");
        JSONObject answer = new JSONObject();
        if (rate == 0) {
            asFastAsItGoes(warmUpSeconds);
            answer.put("rate", asFastAsItGoes(seconds));
            answer.put("histogram", "");
            answer.put("fell_behind", false);
            return answer;
        }
        arrive(rate, (int) Math.max(1, rate * warmUpSeconds), new Histogram(1, GREATEST_NS, 3));
        Histogram histogram = new Histogram(1, GREATEST_NS, 3);
        long begun = System.nanoTime();
        boolean fellBehind = arrive(rate, (int) Math.max(1, rate * seconds), histogram);
        answer.put("rate", histogram.getTotalCount() * 1e9 / (System.nanoTime() - begun));
        answer.put("histogram", encoded(histogram));
        answer.put("fell_behind", fellBehind);
        return answer;
    }

    private double asFastAsItGoes(double seconds) {
        long begun = System.nanoTime();
        long ended = begun;
        int before = done;
        while (ended - begun < seconds * 1e9) {
            putting.put(done++);
            ended = System.nanoTime();
        }
        return (done - before) * 1e9 / (ended - begun);
    }

    private boolean arrive(double rate, int count, Histogram histogram) {
        double intervalNs = 1e9 / rate;
        long begun = System.nanoTime() + (long) intervalNs;
        for (int number = 0; number < count; number++) {
            long due = begun + (long) (number * intervalNs);
            waitUntil(due);
            putting.put(done++);
            long latency = System.nanoTime() - due;
            histogram.recordValue(Math.max(1, latency));
            if (latency > GIVE_UP_NS) {
                return true;
            }
        }
        return false;
    }

    private static void waitUntil(long due) {
        long ahead = due - System.nanoTime();
        if (ahead > SLEEP_ABOVE_NS) {
            LockSupport.parkNanos(ahead - AWAKE_BEFORE_NS);
        }
        while (System.nanoTime() < due) {
            Thread.onSpinWait();
        }
    }

    private static String encoded(Histogram histogram) {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int length = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), length));
    }
}
