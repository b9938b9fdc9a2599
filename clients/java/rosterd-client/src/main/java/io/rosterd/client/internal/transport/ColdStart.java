package io.rosterd.client.internal.transport;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Timestamp;
import io.rosterd.v1.Hello;
import io.rosterd.v1.Register;
import io.rosterd.v1.Registered;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.SessionResponse;
import io.rosterd.v1.Welcome;

/**
 * Loads the classes of the first frames before a stream is opened: on a busy machine a cold JVM takes seconds for it, and the
 * coordinator's timeout starts when the stream opens.
 */
public final class ColdStart {
    private ColdStart() {}

    /** Writes and reads the first frames, to nobody. */
    public static void loadFrames() {
        Hello.Builder hello = Hello.newBuilder().setSentAt(Timestamp.getDefaultInstance());
        SessionRequest.newBuilder().setHello(hello).build().toByteArray();
        SessionRequest.newBuilder()
                .setRegister(Register.getDefaultInstance())
                .build()
                .toByteArray();
        try {
            for (SessionResponse.Builder frame : new SessionResponse.Builder[] {
                SessionResponse.newBuilder().setWelcome(Welcome.getDefaultInstance()),
                SessionResponse.newBuilder().setRegistered(Registered.getDefaultInstance())
            }) {
                SessionResponse.parseFrom(frame.build().toByteArray());
            }
        } catch (InvalidProtocolBufferException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
