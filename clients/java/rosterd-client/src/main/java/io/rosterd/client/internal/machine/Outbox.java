package io.rosterd.client.internal.machine;

import io.rosterd.v1.SessionRequest;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.event.Level;

/** Collects the effects of one event, in order. */
final class Outbox {
    private List<Effect> effects = new ArrayList<>();
    private long stream;

    /** Frames go out on this stream from now on. */
    void useStream(long stream) {
        this.stream = stream;
    }

    void add(Effect effect) {
        effects.add(effect);
    }

    void send(SessionRequest.Builder frame) {
        effects.add(new Effect.Send(stream, frame.build()));
    }

    void note(Level level, String text) {
        effects.add(new Effect.Note(level, text));
    }

    List<Effect> take() {
        List<Effect> taken = effects;
        effects = new ArrayList<>();
        return taken;
    }
}
