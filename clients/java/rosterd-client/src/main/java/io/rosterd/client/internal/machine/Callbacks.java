package io.rosterd.client.internal.machine;

import io.rosterd.v1.Callback;
import io.rosterd.v1.CallbackDone;
import io.rosterd.v1.SessionRequest;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.event.Level;

/** The callbacks of fires: each is called once, and its answer is kept, since the coordinator asks again after a lost stream. */
final class Callbacks {
    private static final int MAX_REMEMBERED = 128;

    private final int slots;
    private final Outbox out;
    private boolean live;
    // By when each must be answered.
    private final Map<String, Long> open = new LinkedHashMap<>();
    private final Map<String, CallbackDone> done = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, CallbackDone> eldest) {
            if (size() <= MAX_REMEMBERED) return false;
            unsent.remove(eldest.getKey());
            return true;
        }
    };

    // Answers that had no stream.
    private final Set<String> unsent = new LinkedHashSet<>();

    Callbacks(int slots, Outbox out) {
        this.slots = slots;
        this.out = out;
    }

    /** The stream is attached: sends the answers that had none. */
    void attached() {
        live = true;
        for (String id : List.copyOf(unsent)) {
            CallbackDone answered = done.get(id);
            if (answered != null) answer(answered);
        }
        unsent.clear();
    }

    void detached() {
        live = false;
    }

    private void answer(CallbackDone answered) {
        unsent.remove(answered.getCallbackId());
        if (live) out.send(SessionRequest.newBuilder().setCallbackDone(answered));
        else if (done.containsKey(answered.getCallbackId())) unsent.add(answered.getCallbackId());
    }

    boolean any() {
        return !open.isEmpty();
    }

    long deadline() {
        long next = Times.NEVER;
        for (long by : open.values()) next = Math.min(next, by);
        return next;
    }

    void asked(long boot, Callback callback) {
        String id = callback.getCallbackId();
        if (open.containsKey(id)) return;
        CallbackDone known = done.get(id);
        if (known != null) {
            answer(known);
        } else if (open.size() >= slots) {
            answer(answerOf(id, "too many callbacks at a time", false));
        } else {
            long timeout = Times.nanos(callback.getTimeout());
            open.put(id, timeout > 0 ? Times.after(boot, timeout) : Times.NEVER);
            out.add(new Effect.StartCallback(callback));
        }
    }

    void ended(String id, String error) {
        ended(id, error, false);
    }

    private void ended(String id, String error, boolean timedOut) {
        if (open.remove(id) == null) return;
        CallbackDone answered = answerOf(id, error, timedOut);
        done.put(id, answered);
        if (!error.isEmpty()) out.note(Level.ERROR, "callback " + id + " failed: " + error);
        answer(answered);
    }

    void expire(long boot) {
        for (Map.Entry<String, Long> one : List.copyOf(open.entrySet())) {
            if (boot >= one.getValue()) ended(one.getKey(), "timed out", true);
        }
    }

    void abandon() {
        for (String id : List.copyOf(open.keySet())) ended(id, "the worker left");
    }

    private static CallbackDone answerOf(String id, String error, boolean timedOut) {
        return CallbackDone.newBuilder()
                .setCallbackId(id)
                .setError(Texts.shorten(error, Texts.MAX_ERROR))
                .setTimedOut(timedOut)
                .build();
    }
}
