package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import io.rosterd.v1.SessionResponse;

/** An input of the machine. */
public sealed interface Event {
    /** Applies itself to the machine. */
    void applyTo(Machine machine, Now now);

    /** {@return whether it acknowledges a heartbeat, which is handled before the timers} */
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
            // The machine has already checked the timers.
        }
    }

    /** The connection is open, and frames can be sent. */
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

    /** A handler has ended. */
    record Ended(RunKey key, Ending ending) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().ended(now, key, ending);
        }
    }

    /** A handler has found by its own check that its lease had expired, and acts on that. */
    record Expired(RunKey key) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.expired(now, key);
        }
    }

    /** A run reports progress. */
    record Progressed(RunKey key, int percent, String message) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().progressed(this);
        }
    }

    /** A run sets its item's offset. */
    record OffsetSet(RunKey key, ByteString offset) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.inFlight().offsetSet(now, this);
        }
    }

    /** A callback has ended; error empty: it succeeded. */
    record CallbackEnded(String id, String error) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.callbacks().ended(id, error);
        }
    }

    /** Leave in order; grace in nanoseconds, null: that of the options. */
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

    /** The program adds a job. */
    record JobAdded(Registration registration) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.jobAdded(registration);
        }
    }

    /** The program removes a job. */
    record JobRemoved(String job) implements Event {
        @Override
        public void applyTo(Machine machine, Now now) {
            machine.jobRemoved(now, job);
        }
    }
}
