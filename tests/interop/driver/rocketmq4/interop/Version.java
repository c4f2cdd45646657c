package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import io.netty.channel.ChannelHandlerContext;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.processor.SendMessageProcessor;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.header.ConsumerSendMsgBackRequestHeader;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.schedule.ScheduleMessageService;

/** What 4.9 does in another way than 5.x: the delivery belongs to the store and starts with it. */
final class Version {
    private final BrokerController broker;
    private final DefaultMessageStore store;

    Version(BrokerController broker, DefaultMessageStore store) {
        this.broker = broker;
        this.store = store;
    }

    void start() throws Exception {
        store.start();
        // Its first pass is a second away: nothing has been delivered yet.
        stopDelivery();
    }

    private ScheduleMessageService schedule() {
        return store.getScheduleMessageService();
    }

    void startDelivery() {
        schedule().start();
    }

    void stopDelivery() {
        schedule().shutdown();
    }

    String delayOffsets() {
        return schedule().encode();
    }

    void persistDelayOffsets() {
        schedule().persist();
    }

    MessageFilter tagFilter(String topic, String tags) throws Exception {
        return new DefaultMessageFilter(FilterAPI.buildSubscriptionData(topic, tags));
    }

    /** The boundary is new in 5.x. */
    long offsetByTime(String topic, int queueId, long timestamp, String boundary) {
        return store.getOffsetInQueueByTime(topic, queueId, timestamp);
    }

    void createGroup(JSONObject config) {
        broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(
            JSON.toJavaObject(config, SubscriptionGroupConfig.class));
    }

    RemotingCommand sendBack(ChannelHandlerContext context, JSONObject request) throws Exception {
        ConsumerSendMsgBackRequestHeader header = new ConsumerSendMsgBackRequestHeader();
        header.setGroup(request.getString("group"));
        header.setOffset(request.getLong("physical_offset"));
        header.setDelayLevel(request.getInteger("delay_level"));
        header.setMaxReconsumeTimes(request.getInteger("max_reconsume_times"));
        header.setUnitMode(request.getBooleanValue("unit_mode"));
        MessageExt failed = store.lookMessageByOffset(header.getOffset());
        header.setOriginTopic(failed == null ? null : failed.getTopic());
        RemotingCommand command = RemotingCommand.createRequestCommand(RequestCode.CONSUMER_SEND_MSG_BACK, header);
        command.makeCustomHeaderToNet();
        return new SendMessageProcessor(broker).processRequest(context, command);
    }
}
