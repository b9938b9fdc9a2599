package io.rosterd.client.internal.driver;

import io.rosterd.client.CancelReason;
import io.rosterd.client.RosterdException;
import io.rosterd.client.internal.machine.Effect;
import io.rosterd.client.internal.machine.RunKey;
import io.rosterd.v1.Callback;
import java.time.Duration;
import java.util.List;
import org.slf4j.event.Level;

/** The side of user code, as the driver sees it. It is called on the driver's thread, and returns at once. */
public interface Outlet {
    /** Call a handler; answered by Began, unless the last check fails, and Ended. */
    void startRun(Effect.StartRun start);

    /** A run must stop. */
    void stopRun(RunKey key, CancelReason reason);

    /** Every run must stop. */
    void stopAll(CancelReason reason);

    /** Call a callback; answered by CallbackEnded. */
    void startCallback(Callback callback);

    /** The worker is attached. */
    void attached(String server, String instanceId);

    /** The worker is no longer attached. */
    void detached(String server, String reason);

    /** The lease was renewed. */
    void renewed(Duration roundTrip);

    /** The worker's items of a job have changed. */
    default void assigned(String job, List<Integer> items) {}

    /** A line for the log. */
    void note(Level level, String text);

    /** The worker has ended; failure null: in order. Nothing follows. */
    void finished(RosterdException failure);
}
