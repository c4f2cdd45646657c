package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * A process that keeps one of Apache RocketMQ's stores and does what it is told, one JSON object a line.
 *
 * Each line on standard input is {"op": name, ...}; each answer is {"answer": ...} or {"error": text}. The
 * names and fields are those of tests/support/interop/mqstore.py, which does the same with mqstore.
 * One store at a time; the process serves many of them one after another, for a JVM is slow to start.
 */
public final class Driver {
    private Store store;

    public static void main(String[] arguments) throws Exception {
        // Whatever RocketMQ prints must not get between the answers.
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        // A request of version 0 would count as one of a client too old to say how often it wants to retry.
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.toJSONString(driver.answer(line),
                SerializerFeature.WriteMapNullValue,
                SerializerFeature.WriteNonStringKeyAsString,
                SerializerFeature.DisableCircularReferenceDetect));
            answers.flush();
        }
        // The other side is gone. Threads of RocketMQ that still run must not keep the process alive.
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
            case "open":
                if (store != null) {
                    throw new IllegalStateException("close the other store first");
                }
                Store opened = new Store(request);
                store = opened;
                return opened.range();
            case "close":
                Store closing = store;
                store = null;
                closing.close();
                return null;
            case "put":
                return store.put(request.getJSONArray("messages"));
            case "range":
                return store.range();
            case "queues":
                return store.queues();
            case "news":
                return store.news(request.getLongValue("from"));
            case "messages":
                return store.messages(request.getJSONArray("physical_offsets"));
            case "get":
                return store.get(request.getJSONArray("requests"));
            case "by_time":
                return store.byTime(request.getJSONArray("requests"));
            case "query":
                return store.query(request.getJSONArray("requests"));
            case "send_back":
                return store.sendBack(request);
            case "deliver":
                return store.deliver(request.getLongValue("delivered"));
            case "create_topic":
                return store.createTopic(request);
            case "create_group":
                return store.createGroup(request);
            case "commit":
                return store.commit(request);
            case "persist":
                return store.persist();
            case "state":
                return store.state();
            default:
                throw new IllegalArgumentException("no such operation: " + operation);
        }
    }
}
