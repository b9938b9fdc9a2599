package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import io.rosterd.client.CancelReason;
import io.rosterd.client.JobRefusedException;
import io.rosterd.client.LeaveTimedOutException;
import io.rosterd.client.RejectedException;
import io.rosterd.client.RosterdException;
import io.rosterd.v1.SessionResponse;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Plays a vector: translates its words to the machine's types, and back. */
final class VectorPlayer {
    private static final int MOST_TICKS = 1000;
    private static final Map<String, Map<String, Object>> DEFAULTS = Map.of(
            "welcome",
            Map.of(
                    "lease", 5000,
                    "heartbeat_interval", 1000,
                    "stop_budget", 500,
                    "max_unacknowledged_reports", 64),
            "trigger",
            Map.of(
                    "attempt", 1,
                    "max_attempts", 1,
                    "sharding_total_count", 3,
                    "source", "NORMAL_TRIGGER",
                    "kind", "SIMPLE"),
            "report_ack",
            Map.of("result", "ACCEPTED"),
            "cancel",
            Map.of("reason", "OPERATOR"));

    /** An effect in the words of the vectors. */
    record Came(double at, String kind, Object value) {}

    private final Machine machine;
    private final List<Long> streams = new ArrayList<>();
    private List<Came> came = new ArrayList<>();
    private long boot;
    private boolean acknowledges;

    VectorPlayer(Map<?, ?> given) {
        List<String> jobs = strings(given, "jobs", List.of("j", "k"));
        Settings settings = new Settings(
                strings(given, "servers", List.of("a:1", "b:1")),
                "",
                "here",
                Map.of(),
                number(given, "slots", 4),
                Times.millis(number(given, "drain_timeout", 30_000)),
                Times.millis(number(given, "leave_timeout", 10_000)),
                Times.millis(3_000),
                Times.millis(10_000),
                Boolean.TRUE.equals(given.get("credential")),
                Boolean.TRUE.equals(given.get("authorities")));
        List<Registration> registrations =
                jobs.stream().map(job -> new Registration(job, job, "", false)).toList();
        Random chance = new Random(7);
        machine = new Machine(settings, registrations, chance::nextDouble);
    }

    private static List<String> strings(Map<?, ?> given, String key, List<String> otherwise) {
        if (!(given.get(key) instanceof List<?> list)) return otherwise;
        return list.stream().map(String.class::cast).toList();
    }

    private static int number(Map<?, ?> given, String key, int otherwise) {
        return given.get(key) instanceof Number number ? number.intValue() : otherwise;
    }

    void attach(List<String> jobs, Map<?, ?> welcome) {
        feed(new Event.Start());
        feed(new Event.Opened(streams.get(0)));
        feed(new Event.Received(streams.get(0), frame("welcome", welcome)));
        for (String job : jobs) feed(new Event.Received(streams.get(0), frame("registered", Map.of("job", job))));
        came.clear();
    }

    /** The effects since the last step. */
    List<Came> play(Map<?, ?> step) {
        acknowledges = Boolean.TRUE.equals(step.get("acknowledge"));
        long at = Times.millis(((Number) step.get("at")).longValue());
        if (!Boolean.TRUE.equals(step.get("asleep"))) tickUntil(at, false);
        boot = at;
        feed(eventOf(step));
        tickUntil(at, true);
        List<Came> taken = came;
        came = new ArrayList<>();
        return taken;
    }

    private void tickUntil(long at, boolean inclusive) {
        for (int ticks = 0; ticks < MOST_TICKS; ticks++) {
            long next = machine.deadline();
            if (next > at || (next == at && !inclusive)) return;
            boot = Math.max(boot, next);
            feed(new Event.Tick());
        }
        throw new AssertionError("the machine does not come to rest at " + boot / 1e6);
    }

    private void feed(Event event) {
        List<Effect> effects = machine.handle(now(), event);
        List<Event> answers = new ArrayList<>();
        for (Effect effect : effects) {
            note(effect);
            if (effect instanceof Effect.StartRun start) answers.add(new Event.Began(start.key()));
            if (acknowledges
                    && effect instanceof Effect.Send send
                    && send.frame().hasHeartbeat()) {
                long sequence = send.frame().getHeartbeat().getSequence();
                answers.add(new Event.Received(send.stream(), frame("heartbeat_ack", Map.of("sequence", sequence))));
            }
        }
        answers.forEach(this::feed);
    }

    private Now now() {
        return new Now(boot, Plain.EPOCH.plusNanos(boot));
    }

    // ---- events

    private Event eventOf(Map<?, ?> step) {
        long stream = streams.isEmpty() ? 0 : streams.get(streams.size() - 1);
        if (step.get("stream") instanceof Number number) stream = streams.get(number.intValue() - 1);
        if (step.containsKey("start")) return new Event.Start();
        if (step.containsKey("time")) return new Event.Tick();
        if (step.containsKey("opened")) return new Event.Opened(stream);
        if (step.containsKey("leave")) return new Event.Leave(null, false);
        if (step.containsKey("kill")) return new Event.Quit();
        if (step.get("lost") instanceof Map<?, ?> lost) {
            return new Event.Lost(stream, text(lost, "code"), "as the script says");
        }
        if (step.get("frame") instanceof Map<?, ?> frame) {
            Map.Entry<?, ?> only = frame.entrySet().iterator().next();
            Map<?, ?> fields = only.getValue() instanceof Map<?, ?> map ? map : Map.of();
            return new Event.Received(stream, frame((String) only.getKey(), fields));
        }
        return userEventOf(step);
    }

    private static Event userEventOf(Map<?, ?> step) {
        if (step.get("ended") instanceof Map<?, ?> ended) {
            return new Event.Ended(Plain.key(text(ended, "run")), endingOf(ended));
        }
        if (step.get("progress") instanceof Map<?, ?> said) {
            int percent = said.get("percent") instanceof Number number ? number.intValue() : 0;
            return new Event.Progressed(
                    Plain.key(text(said, "run")), Math.max(0, Math.min(100, percent)), text(said, "message"));
        }
        if (step.get("offset") instanceof Map<?, ?> said) {
            return new Event.OffsetSet(Plain.key(text(said, "run")), ByteString.copyFromUtf8(text(said, "offset")));
        }
        if (step.get("found_expired") instanceof Map<?, ?> found) {
            return new Event.Expired(Plain.key(text(found, "run")));
        }
        if (step.get("callback_ended") instanceof Map<?, ?> ended) {
            return new Event.CallbackEnded(text(ended, "callback_id"), text(ended, "error"));
        }
        throw new IllegalArgumentException("no event in " + step);
    }

    private static Ending endingOf(Map<?, ?> ended) {
        Ending.Kind kind = switch (text(ended, "result")) {
            case "succeeded" -> Ending.Kind.RETURNED;
            case "failed" -> Ending.Kind.THREW;
            case "fatal" -> Ending.Kind.FATAL;
            case "cancelled" -> Ending.Kind.CANCELLED;
            default -> throw new IllegalArgumentException("no result in " + ended);
        };
        return new Ending(
                kind,
                text(ended, "output"),
                text(ended, "error"),
                number(ended, "processed", 0),
                number(ended, "failed", 0),
                ended.get("offset") == null ? null : ByteString.copyFromUtf8(text(ended, "offset")));
    }

    private static String text(Map<?, ?> map, String key) {
        return map.get(key) == null ? "" : Plain.text(map.get(key));
    }

    private static SessionResponse frame(String name, Map<?, ?> fields) {
        if (name.equals("unknown")) return SessionResponse.getDefaultInstance();
        Map<String, Object> all = new LinkedHashMap<>(DEFAULTS.getOrDefault(name, Map.of()));
        if (name.equals("welcome")) {
            String id = fields.get("worker_id") instanceof String given ? given : "w1";
            all.putAll(Map.of("worker_id", id, "instance_id", "here@-@" + id, "resume_key", "key of " + id));
        }
        fields.forEach((key, value) -> all.put((String) key, value));
        SessionResponse.Builder frame = SessionResponse.newBuilder();
        Plain.fill(frame, Map.of(name, all));
        return frame.build();
    }

    // ---- effects

    private void note(Effect effect) {
        if (effect instanceof Effect.Open open) {
            streams.add(open.stream());
            add("connect", open.address());
        } else if (effect instanceof Effect.Close close) {
            add("close", streams.indexOf(close.stream()) + 1);
        } else if (effect instanceof Effect.Send send) {
            Map<?, ?> frame = (Map<?, ?>) Plain.of(send.frame());
            String kind = send.frame().getFrameCase().name().toLowerCase();
            add(kind, frame.get(kind));
        } else if (effect instanceof Effect.StartRun start) {
            add("start", started(start));
        } else if (effect instanceof Effect.StopRun stop) {
            add("stop", Map.of("run", Plain.name(stop.key()), "reason", reasonOf(stop.reason())));
        } else if (effect instanceof Effect.StartCallback start) {
            add("callback", Plain.of(start.callback()));
        } else if (effect instanceof Effect.Finish finish) {
            add("finish", endOf(finish.failure()));
        }
    }

    private void add(String kind, Object value) {
        came.add(new Came(boot / 1e6, kind, value));
    }

    private static Map<String, Object> started(Effect.StartRun start) {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("run", Plain.name(start.key()));
        value.put("attempt", start.attempt());
        value.put("offset", start.offset().toStringUtf8());
        value.put("item_parameter", start.trigger().getItemParameter());
        value.put("job_parameter", start.trigger().getJobParameter());
        value.put("props", start.props());
        value.put("instance_id", start.instanceId());
        return value;
    }

    private static String reasonOf(CancelReason reason) {
        return switch (reason) {
            case OPERATOR -> "operator";
            case TIMED_OUT -> "timed_out";
            case LEAVING -> "leaving";
            case LEASE_EXPIRED -> "lease";
            case FENCED, MARKED_DEAD -> "fenced";
        };
    }

    private static String endOf(RosterdException failure) {
        if (failure == null) return "left";
        if (failure instanceof JobRefusedException) return "refused";
        if (failure instanceof RejectedException) return "rejected";
        return failure instanceof LeaveTimedOutException ? "unacknowledged" : "killed";
    }
}
