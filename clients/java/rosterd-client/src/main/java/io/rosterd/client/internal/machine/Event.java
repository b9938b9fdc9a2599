package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import io.rosterd.v1.SessionResponse;

/** What goes into the machine. */
public sealed interface Event {
    /** Hands itself to the machine. */
    void applyTo(Machine machine, Now now);

    /** {@return whether it acknowledges a heartbeat, which is judged before the timers} */
    default boolean provesLease() {
        return false;
    }

    /** The worker begins. */
    record Start() implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.open(now);
        }
    }

    /** A timer is due. */
    record Tick() implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            // The timers were looked at already.
        }
    }

    /** The connection stands, and frames can be sent. */
    record Opened(long stream) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.opened(now, stream);
        }
    }

    /** The stream ended or never came to be; code is the name of a gRPC status, or empty. */
    record Lost(long stream, String code, String detail) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.lost(now, this);
        }
    }

    /** A frame came. */
    record Received(long stream, SessionResponse frame) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.received(now, stream, frame);
        }

        @Override
        public boolean provesLease() {
            return frame.hasHeartbeatAck();
        }
    }

    /** A handler is about to be called. */
    record Began(RunKey key) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().began(now, key);
        }
    }

    /** A handler has really ended. */
    record Ended(RunKey key, Ending ending) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().ended(now, key, ending);
        }
    }

    /** A handler has found by its own look that its lease had expired, and goes by that. */
    record Expired(RunKey key) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.expired(now, key);
        }
    }

    /** A run says how far it is. */
    record Progressed(RunKey key, int percent, String message) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().progressed(this);
        }
    }

    /** A run says how far its item has come. */
    record OffsetSet(RunKey key, ByteString offset) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().offsetSet(now, this);
        }
    }

    /** A callback has ended; error empty: well. */
    record CallbackEnded(String id, String error) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.callbacks().ended(id, error);
        }
    }

    /** Leave in order; grace in nanoseconds, null: what the options say. */
    record Leave(Long grace, boolean signalled) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.leave(now, this);
        }
    }

    /** Leave now, without a goodbye. */
    record Quit() implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.quit(now);
        }
    }

    /** The program has another job. */
    record JobAdded(Registration registration) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.jobAdded(registration);
        }
    }

    /** The program gives a job up. */
    record JobRemoved(String job) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.jobRemoved(now, job);
        }
    }
}
