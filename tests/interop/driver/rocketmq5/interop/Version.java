package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import io.netty.channel.ChannelHandlerContext;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.schedule.ScheduleMessageService;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.header.ConsumerSendMsgBackRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageFilter;

/** What 5.x does in another way than 4.9: the delivery belongs to the broker, and packages were moved. */
final class Version {
    private final BrokerController broker;
    private final DefaultMessageStore store;

    Version(BrokerController broker, DefaultMessageStore store) {
        this.broker = broker;
        this.store = store;
    }

    void start() throws Exception {
        store.start();
    }

    private ScheduleMessageService schedule() {
        return broker.getScheduleMessageService();
    }

    void startDelivery() {
        schedule().start();
    }

    /** Not by shutdown(), after which it could not be started again. */
    void stopDelivery() {
        schedule().stop();
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

    long offsetByTime(String topic, int queueId, long timestamp, String boundary) {
        return store.getOffsetInQueueByTime(topic, queueId, timestamp, BoundaryType.valueOf(boundary));
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
        return broker.getSendMessageProcessor().processRequest(context, command);
    }
}
