package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Apache RocketMQ's producers, consumers and mqadmin, which do what they are told, one JSON object a line.
 *
 * They are as published and know nothing of who answers them. A body is "number", or "number fails", for a
 * message that its consumer fails on so many times.
 */
@SuppressWarnings("deprecation")
public final class Traffic {
    /** Every call of a client waits so long; three seconds, RocketMQ's default, is too short beside other work. */
    private static final int TIMEOUT_MS = 20_000;
    private static final int HEARTBEAT_MS = 2_000;

    private final String nameServer;
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, ConcurrentLinkedQueue<JSONObject>> seen = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> checked = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<Integer> acknowledged = new ConcurrentLinkedQueue<>();
    private final Set<String> counted = ConcurrentHashMap.newKeySet();
    private final AtomicInteger failed = new AtomicInteger();
    private volatile boolean isFlooding;
    private final List<Thread> flood = new ArrayList<>();
    private DefaultLitePullConsumer lite;

    private Traffic(String nameServer) {
        this.nameServer = nameServer;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Traffic traffic = new Traffic(arguments[0]);
        try {
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                answers.println(JSON.toJSONString(traffic.answer(line), SerializerFeature.WriteMapNullValue));
                answers.flush();
            }
            Runtime.getRuntime().halt(0);
        } catch (Throwable error) {
            // Else the clients' threads live on, and whoever asks waits for ever.
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private JSONObject answer(String line) {
        JSONObject answer = new JSONObject();
        try {
            JSONObject request = JSON.parseObject(line, Feature.OrderedField);
            answer.put("answer", run(request.getString("op"), request));
        } catch (Throwable error) {
            error.printStackTrace();
            answer.put("error", error.toString());
        }
        return answer;
    }

    private Object run(String operation, JSONObject request) throws Exception {
        switch (operation) {
            case "send":
                return send(request);
            case "send_in_transactions":
                return sendInTransactions(request);
            case "checked":
                return new ArrayList<>(checked);
            case "request":
                return request(request);
            case "consume":
                return consume(request);
            case "seen":
                return new ArrayList<>(seen.get(request.getString("name")));
            case "stop":
                consumers.remove(request.getString("name")).shutdown();
                return null;
            case "lite_pull":
                return litePull(request);
            case "flood":
                return flood(request.getString("topic"), request.getIntValue("threads"));
            case "count_flood":
                return countFlood(request.getString("topic"), request.getString("group"));
            case "counted":
                return counted.size();
            case "end_flood":
                return endFlood();
            case "missing":
                return acknowledged.stream().filter(number -> !counted.contains(number.toString())).limit(100)
                    .toArray();
            case "rate":
                return new Rates(request).send(producer("rate"));
            case "consume_rate":
                return new Rates(request).consume(pushConsumer(request.getString("group")), nameServer);
            case "admin":
                return admin(request.getJSONArray("arguments"));
            default:
                throw new IllegalArgumentException("no such operation: " + operation);
        }
    }

    /** Signs requests, if the JVM was given a key. */
    private static RPCHook hook() {
        String key = System.getProperty("interop.accessKey");
        return key == null ? null
            : new AclClientRPCHook(new SessionCredentials(key, System.getProperty("interop.secretKey")));
    }

    // -- producers ------------------------------------------------------------------------------------

    private DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = producers.get(group);
        if (producer == null) {
            producer = new DefaultMQProducer(group, hook());
            start(producer);
            producers.put(group, producer);
        }
        return producer;
    }

    private void start(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(nameServer);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setInstanceName(producer.getProducerGroup());
        producer.start();
    }

    private List<Message> messages(JSONObject request) {
        List<Message> messages = new ArrayList<>();
        for (Object body : request.getJSONArray("bodies")) {
            Message message = new Message(request.getString("topic"), request.getString("tags"),
                body.toString().split(" ")[0], body.toString().getBytes(StandardCharsets.UTF_8));
            if (request.containsKey("delay_level")) {
                message.setDelayTimeLevel(request.getIntValue("delay_level"));
            }
            messages.add(message);
        }
        return messages;
    }

    /** Sends messages in one of the ways; answers the status and queue of each that is answered. */
    private Object send(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request.getString("group"));
        List<Message> messages = messages(request);
        List<String> answers = new ArrayList<>();
        switch (request.getString("way")) {
            case "sync":
                for (Message message : messages) {
                    answers.add(described(producer.send(message)));
                }
                return answers;
            case "ordered":
                for (Message message : messages) {
                    answers.add(described(producer.send(message,
                        (queues, sent, argument) -> queues.get((Integer) argument % queues.size()),
                        request.getIntValue("queue"))));
                }
                return answers;
            case "batch":
                return described(producer.send(messages));
            case "oneway":
                for (Message message : messages) {
                    producer.sendOneway(message);
                }
                return null;
            case "async":
                return sendAsync(producer, messages);
            default:
                throw new IllegalArgumentException(request.getString("way"));
        }
    }

    private static String described(SendResult result) {
        return result.getSendStatus() + " " + result.getMessageQueue().getQueueId() + " " + result.getQueueOffset();
    }

    private static List<String> sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        ConcurrentLinkedQueue<String> answers = new ConcurrentLinkedQueue<>();
        CountDownLatch waiting = new CountDownLatch(messages.size());
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answers.add(described(result));
                    waiting.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    answers.add(error.toString());
                    waiting.countDown();
                }
            });
        }
        waiting.await(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        return new ArrayList<>(answers);
    }

    /** A body is "number first then": the state after the half, and the one whenever the broker asks. */
    private Object sendInTransactions(JSONObject request) throws Exception {
        TransactionMQProducer producer = (TransactionMQProducer) producers.get(request.getString("group"));
        if (producer == null) {
            producer = new TransactionMQProducer(request.getString("group"), hook());
            producer.setTransactionListener(new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                    return LocalTransactionState.valueOf(new String(message.getBody()).split(" ")[1]);
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    String body = new String(message.getBody());
                    checked.add(message.getTopic() + " " + body.split(" ")[0]);
                    return LocalTransactionState.valueOf(body.split(" ")[2]);
                }
            });
            start(producer);
            producers.put(request.getString("group"), producer);
        }
        List<String> states = new ArrayList<>();
        for (Message message : messages(request)) {
            states.add(producer.sendMessageInTransaction(message, null).getLocalTransactionState().name());
        }
        return states;
    }

    /** Sends a request; its reply's body. A consumer whose name begins with "replying" answers. */
    private Object request(JSONObject request) throws Exception {
        Message reply = producer(request.getString("group")).request(messages(request).get(0), TIMEOUT_MS);
        return new String(reply.getBody(), StandardCharsets.UTF_8);
    }

    // -- consumers ------------------------------------------------------------------------------------

    private static DefaultMQPushConsumer pushConsumer(String group) {
        return new DefaultMQPushConsumer(group, hook(), new AllocateMessageQueueAveragely());
    }

    private Object consume(JSONObject request) throws Exception {
        String name = request.getString("name");
        DefaultMQPushConsumer consumer = pushConsumer(request.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setInstanceName(name);
        // Otherwise a message that the listener has just been given is not counted as consumed at the end.
        consumer.setAwaitTerminationMillisWhenShutdown(TIMEOUT_MS);
        // A client of 5.x that has new queues tells its broker so, but not while another heartbeat is under way.
        // Until the next one, half a minute later, every broker answers its pulls SUBSCRIPTION_NOT_LATEST.
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(request.getString("topic"), request.getString("tags"));
        if (request.containsKey("max_reconsume_times")) {
            consumer.setMaxReconsumeTimes(request.getIntValue("max_reconsume_times"));
        }
        if (request.getBooleanValue("broadcasting")) {
            consumer.setMessageModel(Models.BROADCASTING);
        }
        ConcurrentLinkedQueue<JSONObject> here = new ConcurrentLinkedQueue<>();
        seen.put(name, here);
        DefaultMQProducer replier = name.startsWith("replying") ? producer("repliers") : null;
        if (request.getBooleanValue("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(100);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                hasFailed(messages, here) ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                if (replier != null) {
                    reply(replier, messages.get(0));
                }
                return hasFailed(messages, here) ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        consumers.put(name, consumer);
        return null;
    }

    private static void reply(DefaultMQProducer replier, MessageExt message) {
        try {
            replier.send(MessageUtil.createReplyMessage(message, ("reply to " + new String(message.getBody())).getBytes()));
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private static boolean hasFailed(List<MessageExt> messages, ConcurrentLinkedQueue<JSONObject> here) {
        MessageExt message = messages.get(0);
        String[] words = new String(message.getBody(), StandardCharsets.UTF_8).split(" ");
        JSONObject described = new JSONObject();
        described.put("body", words[0]);
        described.put("topic", message.getTopic());
        described.put("tags", message.getTags());
        described.put("queue", message.getQueueId());
        described.put("offset", message.getQueueOffset());
        described.put("times", message.getReconsumeTimes());
        described.put("waited_ms", message.getStoreTimestamp() - message.getBornTimestamp());
        here.add(described);
        return words.length > 1 && words[1].matches("[0-9]+")
            && message.getReconsumeTimes() < Integer.parseInt(words[1]);
    }

    /** What a lite pull consumer polls until so many messages have come. */
    private Object litePull(JSONObject request) throws Exception {
        lite = new DefaultLitePullConsumer(request.getString("group"), hook());
        lite.setNamesrvAddr(nameServer);
        lite.setMqClientApiTimeout(TIMEOUT_MS);
        lite.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        lite.subscribe(request.getString("topic"), "*");
        lite.start();
        List<String> bodies = new ArrayList<>();
        long end = System.currentTimeMillis() + 4 * TIMEOUT_MS;
        while (bodies.size() < request.getIntValue("count") && System.currentTimeMillis() < end) {
            for (MessageExt message : lite.poll(500)) {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
        }
        lite.commitSync();
        lite.shutdown();
        return bodies;
    }

    // -- load -----------------------------------------------------------------------------------------

    /** A consumer of a flood: of what it is given only the bodies are kept, once each. */
    private Object countFlood(String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = pushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            counted.add(new String(messages.get(0).getBody(), StandardCharsets.UTF_8));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        consumers.put(group, consumer);
        return null;
    }

    /** Threads that send, each 250 a second at most; "end_flood" answers which were acknowledged. */
    private Object flood(String topic, int threads) throws Exception {
        DefaultMQProducer producer = producer("flood");
        producer.setRetryTimesWhenSendFailed(0);
        AtomicInteger numbers = new AtomicInteger();
        isFlooding = true;
        for (int at = 0; at < threads; at++) {
            Thread thread = new Thread(() -> {
                while (isFlooding) {
                    int number = numbers.incrementAndGet();
                    try {
                        producer.send(new Message(topic, Integer.toString(number).getBytes()), 3_000);
                        acknowledged.add(number);
                    } catch (Exception error) {
                        failed.incrementAndGet();
                    }
                    LockSupport.parkNanos(4_000_000);
                }
            });
            thread.start();
            flood.add(thread);
        }
        return null;
    }

    private Object endFlood() throws Exception {
        isFlooding = false;
        for (Thread thread : flood) {
            thread.join();
        }
        flood.clear();
        JSONObject answer = new JSONObject();
        answer.put("acknowledged", new ArrayList<>(acknowledged));
        answer.put("failed", failed.get());
        return answer;
    }

    // -- mqadmin --------------------------------------------------------------------------------------

    /** Runs a command of mqadmin; what it prints. */
    private Object admin(JSONArray arguments) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setProperty("rocketmq.namesrv.addr", nameServer);
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        try {
            MQAdminStartup.main0(arguments.toArray(new String[0]), null);
        } finally {
            System.setOut(before);
        }
        return printed.toString("UTF-8");
    }
}
