package interop;

import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Where a version keeps the message models. */
final class Models {
    static final MessageModel BROADCASTING = MessageModel.BROADCASTING;

    private Models() {
    }
}
