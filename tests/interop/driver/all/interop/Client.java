package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache RocketMQ's own client, which does what it is told, one JSON object a line, as Driver does.
 *
 * What its listener answers for a message stands in the message: it fails while it was retried less than
 * "fails" times, and asks for the delay level "level" (tests/support/interop/chain.py has the twin).
 */
@SuppressWarnings("deprecation")
public final class Client {
    /** Every call waits so long; three seconds, RocketMQ's default, is too short beside other work. */
    private static final int TIMEOUT_MS = 20_000;
    /** The broker may register itself a moment after the client has begun. */
    private static final int POLL_MS = 500;

    private final String nameServer;
    private final ConcurrentLinkedQueue<JSONObject> seen = new ConcurrentLinkedQueue<>();
    private DefaultMQPushConsumer consumer;
    private DefaultMQProducer producer;
    private TransactionMQProducer transactions;
    private final ConcurrentLinkedQueue<Integer> checked = new ConcurrentLinkedQueue<>();

    private Client(String nameServer) {
        this.nameServer = nameServer;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Client client = new Client(arguments[0]);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.toJSONString(client.answer(line), SerializerFeature.WriteMapNullValue));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
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
            case "consume":
                return consume(request);
            case "seen":
                return new ArrayList<>(seen);
            case "committed":
                return committed(request.getJSONArray("topics"));
            case "stop_consuming":
                consumer.shutdown();
                return null;
            case "send":
                return send(request.getJSONArray("messages"));
            case "begin_transactions":
                return beginTransactions(request.getString("group"), request.getString("topic"));
            case "transactions":
                return transactions(request.getJSONArray("messages"));
            case "checked":
                return new ArrayList<>(checked);
            case "end_transactions":
                transactions.shutdown();
                return null;
            case "query":
                return query(request.getJSONArray("requests"));
            default:
                throw new IllegalArgumentException("no such operation: " + operation);
        }
    }

    private Object consume(JSONObject request) throws Exception {
        consumer = new DefaultMQPushConsumer(request.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setHeartbeatBrokerInterval(POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(request.getIntValue("max_reconsume_times"));
        for (Map.Entry<String, Object> subscription : request.getJSONObject("subscriptions").entrySet()) {
            consumer.subscribe(subscription.getKey(), (String) subscription.getValue());
        }
        consumer.registerMessageListener(this::listen);
        consumer.start();
        return null;
    }

    private ConsumeConcurrentlyStatus listen(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        MessageExt message = messages.get(0);
        boolean fails = message.getReconsumeTimes() < number(message, "fails");
        JSONObject described = new JSONObject();
        described.put("number", number(message, "number"));
        described.put("topic", message.getTopic());
        described.put("reconsume_times", message.getReconsumeTimes());
        described.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        seen.add(described);
        context.setDelayLevelWhenNextConsume(number(message, "level"));
        return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static int number(MessageExt message, String property) {
        String text = message.getUserProperty(property);
        return text == null ? 0 : Integer.parseInt(text);
    }

    /** The group's positions, which the consumer tells the broker now and then, and when it stops. */
    private Map<String, Map<String, Long>> committed(JSONArray topics) throws Exception {
        // Not as the broker has them: to read those moves the consumer back to them.
        OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        Map<String, Map<String, Long>> committed = new TreeMap<>();
        for (int at = 0; at < topics.size(); at++) {
            Map<String, Long> ofTopic = new TreeMap<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topics.getString(at))) {
                long offset = offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY);
                if (offset >= 0) {
                    ofTopic.put(Integer.toString(queue.getQueueId()), offset);
                }
            }
            committed.put(topics.getString(at), ofTopic);
        }
        return committed;
    }

    private DefaultMQProducer producer() throws MQClientException {
        if (producer == null) {
            producer = new DefaultMQProducer("interop-producer");
            producer.setNamesrvAddr(nameServer);
            producer.setMqClientApiTimeout(TIMEOUT_MS);
            producer.setSendMsgTimeout(TIMEOUT_MS);
            producer.start();
        }
        return producer;
    }

    /**
     * A producer whose listener does what stands in each message: "first" is its answer after the half, "then"
     * its answer whenever the broker asks.
     */
    private Object beginTransactions(String group, String topic) throws Exception {
        transactions = new TransactionMQProducer(group);
        transactions.setNamesrvAddr(nameServer);
        transactions.setMqClientApiTimeout(TIMEOUT_MS);
        transactions.setSendMsgTimeout(TIMEOUT_MS);
        transactions.setHeartbeatBrokerInterval(POLL_MS);
        transactions.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.valueOf(message.getUserProperty("first"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checked.add(number(message, "number"));
                return LocalTransactionState.valueOf(message.getUserProperty("then"));
            }
        });
        transactions.start();
        for (int tries = 0; ; tries++) {
            try {
                return transactions.fetchPublishMessageQueues(topic).size();
            } catch (MQClientException notYet) {
                if (tries * POLL_MS > TIMEOUT_MS) {
                    throw notYet;
                }
                Thread.sleep(POLL_MS);
            }
        }
    }

    /** Sends messages in transactions; answers the state of each. */
    private List<String> transactions(JSONArray messages) throws Exception {
        List<String> states = new ArrayList<>();
        for (int at = 0; at < messages.size(); at++) {
            states.add(transactions.sendMessageInTransaction(message(messages.getJSONObject(at)), null)
                .getLocalTransactionState().name());
        }
        return states;
    }

    private static Message message(JSONObject from) {
        byte[] body = Base64.getDecoder().decode(from.getString("body"));
        Message message = new Message(from.getString("topic"), body);
        message.setFlag(from.getIntValue("flag"));
        from.getJSONObject("properties").forEach(
            (name, value) -> MessageAccessor.putProperty(message, name, (String) value));
        return message;
    }

    /** Sends messages, each to its queue; answers their offset message ids. */
    private List<String> send(JSONArray messages) throws Exception {
        List<String> ids = new ArrayList<>();
        for (int at = 0; at < messages.size(); at++) {
            JSONObject from = messages.getJSONObject(at);
            SendResult sent = producer().send(message(from), (queues, unused, queueId) -> {
                for (MessageQueue queue : queues) {
                    if (queueId.equals(queue.getQueueId())) {
                        return queue;
                    }
                }
                throw new IllegalArgumentException("no queue " + queueId + " among " + queues);
            }, from.getIntValue("queue_id"));
            ids.add(sent.getSendStatus() + " " + sent.getOffsetMsgId());
        }
        return ids;
    }

    /** Queries by key, each [topic, key, max messages]: the physical offsets of what the broker found. */
    private List<List<Long>> query(JSONArray requests) throws Exception {
        List<List<Long>> found = new ArrayList<>();
        for (int at = 0; at < requests.size(); at++) {
            JSONArray request = requests.getJSONArray(at);
            List<Long> offsets = new ArrayList<>();
            try {
                producer().queryMessage(
                    request.getString(0), request.getString(1), request.getIntValue(2), 0, Long.MAX_VALUE
                ).getMessageList().forEach(message -> offsets.add(message.getCommitLogOffset()));
            } catch (MQClientException nothing) {
                if (!nothing.getErrorMessage().contains("finished, but no message")) {
                    throw nothing;
                }
            }
            found.add(offsets);
        }
        return found;
    }
}
