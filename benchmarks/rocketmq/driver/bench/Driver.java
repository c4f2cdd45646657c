package bench;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * A process that measures Apache RocketMQ's DefaultMessageStore, one request a line (rivals/rocketmq.py asks).
 *
 * Each line on standard input is {"op": name, ...}; each answer is {"answer": ...} or {"error": text}. It lives as
 * long as the benchmarks do, so that what the JIT has compiled stays compiled. Times are taken here, in
 * nanoseconds, around the calls alone: the pipe between the processes is in none of them.
 */
public final class Driver {
    private Reading reading;

    public static void main(String[] arguments) throws Exception {
        // Whatever RocketMQ prints must not get between the answers.
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(driver.answer(line).toJSONString());
            answers.flush();
        }
        // The other side is gone. Threads of RocketMQ that still run must not keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private JSONObject answer(String line) {
        JSONObject answer = new JSONObject();
        try {
            JSONObject request = JSON.parseObject(line);
            answer.put("answer", run(request.getString("op"), request));
        } catch (Throwable error) {
            error.printStackTrace();
            answer.put("error", error.toString());
        }
        return answer;
    }

    private Object run(String operation, JSONObject request) throws Exception {
        switch (operation) {
            case "put":
                return Putting.seconds(request);
            case "arrive":
                return Arriving.answer(request);
            case "open":
                reading = new Reading(request);
                return null;
            case "get":
                return reading.getSeconds(request.getLongValue("messages"), request.getIntValue("at_once"));
            case "look":
                return reading.lookSeconds(request.getIntValue("messages"), request.getLongValue("seed"));
            case "by_tag":
                return reading.looking().byTagSeconds(request);
            case "by_key":
                return reading.looking().byKeySeconds(request);
            case "by_time":
                return reading.looking().byTimeSeconds(request);
            case "close":
                reading.close();
                reading = null;
                return null;
            case "recover":
                return Recovering.seconds(request);
            default:
                throw new IllegalArgumentException("no such operation: " + operation);
        }
    }
}
