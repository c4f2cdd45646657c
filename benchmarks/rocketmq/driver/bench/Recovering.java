package bench;

import com.alibaba.fastjson.JSONObject;

/** Opening a directory that was left by an unclean stop. */
final class Recovering {
    private Recovering() {
    }

    /**
     * How long the loading takes until every message is in its queue. The directory stays unclean: it is not
     * started, so that no lock is taken, and its abort file lies there for the next round.
     */
    static double seconds(JSONObject request) throws Exception {
        OpenStore open = new OpenStore(request.getString("path"), false);
        long begun = System.nanoTime();
        open.load();
        double seconds = (System.nanoTime() - begun) / 1e9;
        long found = open.store.getMaxOffsetInQueue("orders", 0);
        if (found != request.getLongValue("messages")) {
            throw new IllegalStateException("recovery found " + found + " messages");
        }
        open.close();
        return seconds;
    }
}
