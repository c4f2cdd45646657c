package bench;

import org.apache.rocketmq.common.message.MessageExtBrokerInner;

/** The message that a store of 5.x puts. */
final class InnerMessage extends MessageExtBrokerInner {
    private static final long serialVersionUID = 1;
}
