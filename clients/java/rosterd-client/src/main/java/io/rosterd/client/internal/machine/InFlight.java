package io.rosterd.client.internal.machine;

import io.rosterd.client.CancelReason;
import io.rosterd.client.internal.machine.InFlightRun.Phase;
import io.rosterd.v1.RunOutcome;
import io.rosterd.v1.RunProgress;
import io.rosterd.v1.RunRef;
import io.rosterd.v1.RunStarted;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.Trigger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.event.Level;

/**
 * The runs in flight: every run whose handler is called, or that is between attempts, or whose outcome is not acknowledged.
 *
 * <p>Owns the life of a run: the checks before it starts, stopping, retries. Knows only the numbers of streams.
 */
final class InFlight {
    private static final long PROGRESS_EVERY = Times.millis(250);

    /** A Trigger, and what the machine knows about it. */
    record Offer(
            Trigger trigger,
            long stream,
            String instanceId,
            Map<String, String> props,
            long startsIn,
            String objection) {}

    private final int slots;
    private final Outbox out;
    private final Reports reports;
    // In the order in which they came. The following are subsets of it: bursts of thousands of runs are common, so no
    // event iterates over all of them.
    private final Map<RunKey, InFlightRun> active = new LinkedHashMap<>();
    private final Map<RunKey.Item, List<InFlightRun>> ofItem = new HashMap<>();
    private final Set<InFlightRun> toTell = new LinkedHashSet<>();
    private final Set<InFlightRun> progressing = new LinkedHashSet<>();
    private final Map<RunKey.Item, Long> highest = new HashMap<>();
    private int unstopped;
    // A lower bound of the next time at which a timer of a run is due.
    private long soonest = Times.NEVER;

    InFlight(int slots, Outbox out, Reports reports) {
        this.slots = slots;
        this.out = out;
        this.reports = reports;
    }

    // ---- what is in flight

    List<RunRef> refs() {
        List<RunRef> refs = new ArrayList<>(active.size() + reports.all().size());
        for (InFlightRun run : active.values()) refs.add(run.key.ref());
        for (InFlightRun run : reports.all()) refs.add(run.key.ref());
        return refs;
    }

    List<RunKey> working() {
        return List.copyOf(active.keySet());
    }

    boolean isEmpty() {
        return active.isEmpty() && reports.all().isEmpty();
    }

    boolean hasUnstopped() {
        return unstopped > 0;
    }

    private void add(InFlightRun run) {
        active.put(run.key, run);
        ofItem.computeIfAbsent(run.key.ofItem(), item -> new ArrayList<>(1)).add(run);
        unstopped++;
    }

    /** The run is over here, except for its report. */
    private void remove(InFlightRun run) {
        if (active.remove(run.key) == null) return;
        List<InFlightRun> siblings = ofItem.get(run.key.ofItem());
        siblings.remove(run);
        if (siblings.isEmpty()) ofItem.remove(run.key.ofItem());
        if (run.stop == null) unstopped--;
        toTell.remove(run);
        progressing.remove(run);
    }

    // ---- a run begins

    void take(Now now, Offer offer) {
        RunKey key = RunKey.of(offer.trigger().getRun());
        if (active.containsKey(key) || reports.contains(key)) return;
        InFlightRun run = new InFlightRun(key, offer.trigger(), offer.instanceId(), offer.props(), offer.stream());
        Long seen = highest.get(key.ofItem());
        String objection = offer.objection();
        if (seen != null && key.token() <= seen) {
            // The run is over here, or older than one that the item has seen. The coordinator must know.
            objection = "a run with token " + seen + " of the item was seen already";
        } else {
            highest.put(key.ofItem(), key.token());
            // A higher token means that reports of older runs of the item are no longer accepted.
            for (InFlightRun older : ofItemOf(key)) stop(now, older, CancelReason.FENCED);
            if (objection.isEmpty()) objection = objectionTo(key);
        }
        add(run);
        if (!objection.isEmpty()) {
            out.note(Level.WARN, "did not start " + key + ": " + objection);
            report(now, run, RunOutcome.RUN_OUTCOME_NOT_STARTED, objection, "");
        } else if (offer.startsIn() > 0) {
            run.phase = Phase.WAITING;
            later(run, Times.after(now.boot(), offer.startsIn()));
        } else {
            start(run);
        }
    }

    private List<InFlightRun> ofItemOf(RunKey key) {
        return List.copyOf(ofItem.getOrDefault(key.ofItem(), List.of()));
    }

    private String objectionTo(RunKey key) {
        if (ofItem.containsKey(key.ofItem())) return "an older run of the item is still in user code";
        return active.size() >= slots ? "no slot is free" : "";
    }

    /** Forgets the runs that have not begun: their stream is lost. The next one sends them again, under the same tokens. */
    void dropUnstarted() {
        for (InFlightRun run : List.copyOf(active.values())) {
            if (run.phase != Phase.WAITING) continue;
            remove(run);
            highest.computeIfPresent(run.key.ofItem(), (item, token) -> token == run.key.token() ? token - 1 : token);
        }
    }

    private void later(InFlightRun run, long at) {
        run.nextAt = at;
        soonest = Math.min(soonest, at);
    }

    private void start(InFlightRun run) {
        run.phase = Phase.IN_USER_CODE;
        run.percent = 0;
        run.message = "";
        run.currentOffset = null;
        run.progressAt = Times.NEVER;
        long stream = run.startedAt == null ? run.stream : 0;
        out.add(new Effect.StartRun(
                run.key, run.trigger, run.instanceId, run.attempt, run.offset, run.deadline, run.props, stream));
    }

    void began(Now now, RunKey key) {
        InFlightRun run = active.get(key);
        if (run == null) return;
        run.toldFrom = now.wall();
        toTell.add(run);
        if (run.startedAt != null) return;
        run.startedAt = now.wall();
        long timeout = Times.nanos(run.trigger.getTimeout());
        if (timeout <= 0) return;
        run.timeoutAt = Times.after(now.boot(), timeout);
        run.deadline = now.wall().plusNanos(timeout);
        soonest = Math.min(soonest, run.timeoutAt);
    }

    /** Reports which runs have started. For a run that has ended meanwhile, its report implies the start. */
    void sendStarted() {
        for (InFlightRun run : toTell) {
            if (run.phase != Phase.IN_USER_CODE) continue;
            out.send(SessionRequest.newBuilder()
                    .setRunStarted(RunStarted.newBuilder()
                            .setRun(run.key.ref())
                            .setStartedAt(Times.stamp(run.toldFrom))
                            .setAttempt(run.attempt)));
        }
        toTell.clear();
    }

    // ---- a run is stopped

    void cancel(Now now, RunKey key, CancelReason reason) {
        InFlightRun run = active.get(key);
        if (run != null) stop(now, run, reason);
    }

    void stopAll(Now now, CancelReason reason) {
        for (InFlightRun run : List.copyOf(active.values())) stop(now, run, reason);
    }

    /** The coordinator marked the old identity dead: old runs stop, and are not reported. */
    void disown(Now now) {
        for (InFlightRun run : List.copyOf(active.values())) {
            if (run.phase == Phase.IN_USER_CODE) stop(now, run, CancelReason.MARKED_DEAD);
            else remove(run);
        }
        reports.clear();
    }

    private void stop(Now now, InFlightRun run, CancelReason reason) {
        boolean told = run.stop != null;
        // A reason that revokes the run's right overrides an earlier one; otherwise the first reason stays.
        boolean outweighs = reason == CancelReason.FENCED || reason == CancelReason.MARKED_DEAD;
        if (!told) unstopped--;
        if (!told || (outweighs && run.stop != CancelReason.MARKED_DEAD)) run.stop = reason;
        if (run.phase == Phase.BETWEEN_ATTEMPTS) {
            close(now, run, Ending.of(Ending.Kind.CANCELLED, "", "cancelled: " + reason.text()));
        } else if (run.phase == Phase.WAITING) {
            close(now, run, Ending.notBegun("cancelled: " + reason.text()));
        } else if (!told) {
            out.note(Level.WARN, "stopping " + run.key + ": " + reason.text());
            out.add(new Effect.StopRun(run.key, reason));
        }
    }

    // ---- a run ends

    void ended(Now now, RunKey key, Ending ending) {
        InFlightRun run = active.get(key);
        if (run == null || run.phase != Phase.IN_USER_CODE) return;
        run.processed += ending.processed();
        run.failed += ending.failed();
        if (ending.offset() != null) {
            run.newOffset = ending.offset();
            run.offset = ending.offset();
        }
        boolean again =
                ending.kind() == Ending.Kind.THREW && run.stop == null && run.attempt < run.trigger.getMaxAttempts();
        if (!again) {
            close(now, run, ending);
            return;
        }
        run.phase = Phase.BETWEEN_ATTEMPTS;
        progressing.remove(run);
        later(run, Times.after(now.boot(), run.pause()));
        String summary = ending.error().lines().findFirst().orElse("");
        out.note(Level.WARN, "attempt " + run.attempt + " of " + key + " failed: " + summary);
    }

    private void close(Now now, InFlightRun run, Ending ending) {
        if (run.stop == CancelReason.MARKED_DEAD) {
            remove(run);
            return;
        }
        RunOutcome outcome = run.outcomeOf(ending);
        String error = ending.error();
        if (outcome == RunOutcome.RUN_OUTCOME_FAILED) out.note(Level.ERROR, run.key + " failed: " + error);
        if (error.isEmpty() && run.stop != null) error = "cancelled: " + run.stop.text();
        report(now, run, outcome, error, ending.output());
    }

    private void report(Now now, InFlightRun run, RunOutcome outcome, String error, String output) {
        remove(run);
        run.report(now.wall(), outcome, error, output);
        run.phase = Phase.REPORTED;
        reports.add(run);
    }

    // ---- progress

    void progressed(Event.Progressed said) {
        InFlightRun run = active.get(said.key());
        if (run == null || run.phase != Phase.IN_USER_CODE) return;
        run.percent = said.percent();
        run.message = Texts.shorten(said.message(), Texts.MAX_PROGRESS);
        sayProgressAt(run, run.progressSentAt + PROGRESS_EVERY);
    }

    /** A run that ends soon sends its offset with its report only: an offset waits a moment, whatever else goes out. */
    void offsetSet(Now now, Event.OffsetSet said) {
        InFlightRun run = active.get(said.key());
        if (run == null || run.phase != Phase.IN_USER_CODE) return;
        if (run.currentOffset == null) run.offsetSetAt = now.boot();
        run.currentOffset = said.offset();
        sayProgressAt(run, Math.max(run.progressSentAt, run.offsetSetAt) + PROGRESS_EVERY);
    }

    private void sayProgressAt(InFlightRun run, long at) {
        run.progressAt = Math.min(run.progressAt, at);
        progressing.add(run);
    }

    /** Another coordinator may not know how far runs have come. */
    void sayOffsetsAgain() {
        for (InFlightRun run : active.values()) {
            if (run.phase == Phase.IN_USER_CODE && run.currentOffset != null) {
                sayProgressAt(run, Math.max(run.progressSentAt, run.offsetSetAt) + PROGRESS_EVERY);
            }
        }
    }

    /** Only the last progress of a run is kept, and it goes out four times a second at most. */
    void sendProgress(Now now) {
        Iterator<InFlightRun> next = progressing.iterator();
        while (next.hasNext()) {
            InFlightRun run = next.next();
            if (now.boot() < run.progressAt) continue;
            next.remove();
            run.progressAt = Times.NEVER;
            run.progressSentAt = now.boot();
            RunProgress.Builder progress = RunProgress.newBuilder()
                    .setRun(run.key.ref())
                    .setPercent(run.percent)
                    .setMessage(run.message);
            if (run.currentOffset != null) progress.setOffset(run.currentOffset);
            out.send(SessionRequest.newBuilder().setRunProgress(progress));
        }
    }

    // ---- time

    long deadline(boolean live) {
        long next = soonest;
        if (live) for (InFlightRun run : progressing) next = Math.min(next, run.progressAt);
        return next;
    }

    void expire(Now now, boolean mayStart) {
        if (now.boot() < soonest) return;
        for (InFlightRun run : List.copyOf(active.values())) {
            boolean waits = run.phase == Phase.WAITING || run.phase == Phase.BETWEEN_ATTEMPTS;
            if (run.stop == null && now.boot() >= run.timeoutAt) {
                stop(now, run, CancelReason.TIMED_OUT);
            } else if (waits && now.boot() >= run.nextAt && mayStart) {
                if (run.phase == Phase.BETWEEN_ATTEMPTS) run.attempt++;
                start(run);
            }
        }
        soonest = Times.NEVER;
        for (InFlightRun run : active.values()) {
            if (run.phase == Phase.WAITING || run.phase == Phase.BETWEEN_ATTEMPTS) later(run, run.nextAt);
            if (run.stop == null) soonest = Math.min(soonest, run.timeoutAt);
        }
    }
}
