package interop;

import org.apache.rocketmq.store.MessageExtBrokerInner;

/** The message that a store of 4.9 puts. */
final class InnerMessage extends MessageExtBrokerInner {
    private static final long serialVersionUID = 1;
}
