package interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;

/** Messages as JSON: what to put, and what was found. Bodies go in as base64 and come back as a digest. */
final class Messages {
    private Messages() {
    }

    static InnerMessage inner(JSONObject from) throws Exception {
        InnerMessage message = new InnerMessage();
        fill(message, from);
        message.setBody(body(from));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode(
            InnerMessage.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, message.getTags()));
        return message;
    }

    static MessageExtBatch batch(JSONObject from) throws Exception {
        MessageExtBatch message = new MessageExtBatch();
        fill(message, from);
        JSONArray elements = from.getJSONArray("batch");
        List<Message> parts = new ArrayList<>();
        for (int at = 0; at < elements.size(); at++) {
            JSONObject element = elements.getJSONObject(at);
            Message part = new Message(from.getString("topic"), body(element));
            part.setFlag(element.getIntValue("flag"));
            MessageAccessor.setProperties(part, properties(element));
            parts.add(part);
        }
        message.setBody(MessageDecoder.encodeMessages(parts));
        return message;
    }

    private static void fill(MessageExt message, JSONObject from) throws Exception {
        message.setTopic(from.getString("topic"));
        message.setQueueId(from.getIntValue("queue_id"));
        message.setFlag(from.getIntValue("flag"));
        message.setSysFlag(from.getIntValue("sys_flag"));
        message.setBornTimestamp(from.getLongValue("born_timestamp"));
        message.setReconsumeTimes(from.getIntValue("reconsume_times"));
        message.setPreparedTransactionOffset(from.getLongValue("prepared_transaction_offset"));
        InetSocketAddress bornHost = host(from.getString("born_host"));
        InetSocketAddress storeHost = host(from.getString("store_host"));
        message.setBornHost(bornHost);
        message.setStoreHost(storeHost);
        if (bornHost.getAddress() instanceof Inet6Address) {
            message.setBornHostV6Flag();
        }
        if (storeHost.getAddress() instanceof Inet6Address) {
            message.setStoreHostAddressV6Flag();
        }
        MessageAccessor.setProperties(message, properties(from));
    }

    private static byte[] body(JSONObject from) {
        return Base64.getDecoder().decode(from.getString("body"));
    }

    private static Map<String, String> properties(JSONObject from) {
        Map<String, String> properties = new HashMap<>();
        from.getJSONObject("properties").forEach((name, value) -> properties.put(name, (String) value));
        return properties;
    }

    /** Reads hexadecimal address bytes, a colon, and a port. */
    private static InetSocketAddress host(String text) throws Exception {
        int colon = text.indexOf(':');
        byte[] address = new byte[colon / 2];
        for (int at = 0; at < address.length; at++) {
            address[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
        }
        return new InetSocketAddress(
            InetAddress.getByAddress(address), Integer.parseInt(text.substring(colon + 1)));
    }

    private static String described(SocketAddress host) {
        InetSocketAddress address = (InetSocketAddress) host;
        return hex(address.getAddress().getAddress()) + ":" + address.getPort();
    }

    static JSONObject described(MessageExt message) {
        JSONObject described = new JSONObject();
        described.put("topic", message.getTopic());
        described.put("queue_id", message.getQueueId());
        described.put("queue_offset", message.getQueueOffset());
        described.put("physical_offset", message.getCommitLogOffset());
        described.put("store_size", message.getStoreSize());
        described.put("body_crc", message.getBodyCRC());
        described.put("flag", message.getFlag());
        described.put("sys_flag", message.getSysFlag());
        described.put("born_timestamp", message.getBornTimestamp());
        described.put("born_host", described(message.getBornHost()));
        described.put("store_timestamp", message.getStoreTimestamp());
        described.put("store_host", described(message.getStoreHost()));
        described.put("reconsume_times", message.getReconsumeTimes());
        described.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        described.put("properties", message.getProperties());
        described.put("tags", message.getTags());
        described.put("msg_id", message.getMsgId());
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        described.put("body_bytes", body.length);
        described.put("body_sha1", digest(body));
        return described;
    }

    private static String digest(byte[] bytes) {
        try {
            return hex(MessageDigest.getInstance("SHA-1").digest(bytes));
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte value : bytes) {
            text.append(String.format("%02x", value & 0xff));
        }
        return text.toString();
    }
}
