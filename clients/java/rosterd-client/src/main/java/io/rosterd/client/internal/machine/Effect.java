package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import io.rosterd.client.CancelReason;
import io.rosterd.client.RosterdException;
import io.rosterd.v1.Callback;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.Trigger;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.slf4j.event.Level;

/** An output of the machine. */
public sealed interface Effect {
    /** Performs it. */
    void performBy(Performer performer);

    /** Performs the machine's effects. */
    interface Performer {
        /** Connect, once every earlier stream is closed; answered by Opened or Lost. */
        void open(Open effect);

        /** Close a stream. */
        void close(Close effect);

        /** Send a frame. */
        void send(Send effect);

        /** Call a handler; answered by Began, unless the last check fails, and Ended. */
        void startRun(StartRun effect);

        /** Tell a run to stop. */
        void stopRun(StopRun effect);

        /** Call the callback of a fire; answered by CallbackEnded. */
        void startCallback(StartCallback effect);

        /** The worker is attached. */
        void attached(Attached effect);

        /** The worker is no longer attached. */
        void detached(Detached effect);

        /** An acknowledgement has renewed the lease. */
        void renewed(Renewed effect);

        /** The worker's items of a job have changed. */
        default void assigned(Assigned effect) {}

        /** The worker is leaving: runs that can stop early may. */
        void leaving(Leaving effect);

        /** A line for the log. */
        void note(Note effect);

        /** The last effect. */
        void finish(Finish effect);
    }

    /** Connect. */
    record Open(long stream, String address) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.open(this);
        }
    }

    /** Close a stream. */
    record Close(long stream) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.close(this);
        }
    }

    /** Send a frame. */
    record Send(long stream, SessionRequest frame) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.send(this);
        }
    }

    /**
     * Call a handler.
     *
     * @param deadline when the run times out; null: it has no timeout, or it counts from when the handler begins
     * @param stream the stream that must be the current one when the handler begins; 0: any, the run has begun before
     */
    record StartRun(
            RunKey key,
            Trigger trigger,
            String instanceId,
            int attempt,
            ByteString offset,
            Instant deadline,
            Map<String, String> props,
            long stream)
            implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.startRun(this);
        }
    }

    /** Tell a run to stop. */
    record StopRun(RunKey key, CancelReason reason) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.stopRun(this);
        }
    }

    /** Call the callback of a fire. */
    record StartCallback(Callback callback) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.startCallback(this);
        }
    }

    /** The worker is attached. */
    record Attached(String server, String instanceId) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.attached(this);
        }
    }

    /** The worker is no longer attached. */
    record Detached(String server, String reason) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.detached(this);
        }
    }

    /** An acknowledgement has renewed the lease, this many nanoseconds after its heartbeat was sent. */
    record Renewed(long roundTrip) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.renewed(this);
        }
    }

    /** The items of a job that the worker owns now; it comes before the runs that follow the change. */
    record Assigned(String job, List<Integer> items) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.assigned(this);
        }
    }

    /** The worker is leaving. */
    record Leaving() implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.leaving(this);
        }
    }

    /** A line for the log. */
    record Note(Level level, String text) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.note(this);
        }
    }

    /** The worker has ended; failure null: in order. */
    record Finish(RosterdException failure) implements Effect {
        @Override
        public void performBy(Performer performer) {
            performer.finish(this);
        }
    }
}
