package io.rosterd.client.internal.machine;

import io.rosterd.client.CancelReason;
import io.rosterd.client.LeaveTimedOutException;
import io.rosterd.client.RejectedException;
import io.rosterd.client.RosterdException;
import io.rosterd.v1.Cancel;
import io.rosterd.v1.Drain;
import io.rosterd.v1.DrainRequest;
import io.rosterd.v1.Goodbye;
import io.rosterd.v1.Heartbeat;
import io.rosterd.v1.Hello;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.SessionResponse;
import io.rosterd.v1.Shutdown;
import io.rosterd.v1.Trigger;
import io.rosterd.v1.Welcome;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.function.DoubleSupplier;
import org.slf4j.event.Level;

/**
 * The worker's side of the conversation: decides when to connect and where, what to send, which run may start, which must stop, and
 * when the worker may leave.
 *
 * <p>It reads no clock, opens nothing and calls no user code: the driver does, on one thread, and is its only caller. Every method
 * returns at once. Times are nanoseconds.
 */
public final class Machine {
    /** The version of this library, for people. */
    public static final String VERSION = "0.1.0";

    /** While leaving, pauses stay short: there is little time. */
    private static final long LONGEST_DELAY_LEAVING = Times.millis(1_000);
    /** How long a coordinator may take for Welcome. */
    private static final long WELCOME = Times.millis(6_000);
    /** Before any Welcome: trying again with the same Hello would change nothing. */
    private static final Set<String> FINAL =
            Set.of("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED");

    private enum Link {
        DOWN,
        OPENING,
        /** Hello was sent, Welcome has not arrived. */
        GREETING,
        LIVE,
        /** Finish was sent: further events are ignored. */
        OVER
    }

    private final Settings settings;
    private final Outbox out = new Outbox();
    private final Route route;
    private final Lease lease = new Lease();
    private final OneWayDelay delay = new OneWayDelay();
    private final Jobs jobs;
    private final Reports reports = new Reports(out);
    private final InFlight inFlight;
    private final Callbacks callbacks;

    private Link link = Link.DOWN;
    private long stream;
    private String server = "";
    // The deadline of the link's current step: to retry, to be open, to be welcomed.
    private long linkBy = Times.NEVER;
    private long helloSent;
    private long lastFrame;
    // The last frame that renewed the lease.
    private long lastRenewed;
    private long lastHeartbeat;
    private int credits = 1;
    private int rejections;
    private String workerId = "";
    private String resumeKey = "";
    private String instanceId = "";
    private Leave leave;

    /**
     * Makes one that has not begun.
     *
     * @param settings its settings
     * @param registrations its jobs
     * @param chance numbers from 0 to 1
     */
    public Machine(Settings settings, List<Registration> registrations, DoubleSupplier chance) {
        this.settings = settings;
        route = new Route(settings, chance);
        jobs = new Jobs(registrations, out);
        inFlight = new InFlight(settings.slots(), out, reports);
        callbacks = new Callbacks(settings.slots(), out);
    }

    // ---- what a driver needs

    /**
     * Takes an event. An acknowledgement that waited in the socket still proves a lease: it is handled before the timers.
     * Everything else is handled after them, so that nothing starts under a lease that has just expired.
     *
     * @param now the time
     * @param event what happened
     * @return what to do, in this order
     */
    public List<Effect> handle(Now now, Event event) {
        if (over()) return List.of();
        if (event.provesLease()) event.applyTo(this, now);
        expire(now);
        if (!event.provesLease() && !over()) event.applyTo(this, now);
        if (!over()) settle(now);
        return out.take();
    }

    /** {@return when to call with a tick} */
    public long deadline() {
        if (over()) return Times.NEVER;
        long next = Math.min(linkBy, Math.min(inFlight.deadline(link == Link.LIVE), callbacks.deadline()));
        boolean unstopped = inFlight.hasUnstopped();
        if (unstopped) next = Math.min(next, lease.stopsAt());
        if (link == Link.LIVE) {
            next = Math.min(next, Math.min(deadAt(), Math.min(nextHeartbeat(), jobs.nextOffer())));
        }
        if (leave == null) return next;
        if (unstopped || callbacks.any()) next = Math.min(next, leave.drainBy());
        return Math.min(next, Math.min(leave.limit(settings.leaveTimeout()), farewellBy()));
    }

    /** {@return when handlers must stop: for the last check, on the thread that calls one} */
    public long leaseStopsAt() {
        return lease.stopsAt();
    }

    /** {@return the stream that is attached, 0: none; for the same check} */
    public long liveStream() {
        return link == Link.LIVE ? stream : 0;
    }

    /** {@return whether the worker is leaving} */
    public boolean isLeaving() {
        return leave != null;
    }

    /** {@return how many reports are sent and not acknowledged on the current stream} */
    public int reportsUnderWay() {
        return reports.underWay();
    }

    // ---- events

    InFlight inFlight() {
        return inFlight;
    }

    Callbacks callbacks() {
        return callbacks;
    }

    void opened(Now now, long opened) {
        if (opened == stream && link == Link.OPENING) greet(now);
    }

    void lost(Now now, Event.Lost event) {
        if (event.stream() == stream && link != Link.DOWN) lose(now, event.code(), event.detail());
    }

    void expired(Now now, RunKey key) {
        // Even if an acknowledgement has arrived meanwhile: the handler stops, so its run must not count as done.
        inFlight.cancel(now, key, CancelReason.LEASE_EXPIRED);
    }

    void leave(Now now, Event.Leave event) {
        if (event.signalled()) out.add(Leave.waitsFor(inFlight.working(), settings.drainTimeout()));
        begin(now, event.grace(), "the worker was asked to stop", null);
    }

    void quit(Now now) {
        inFlight.stopAll(now, CancelReason.LEAVING);
        finish(new RosterdException("left at once, without a goodbye"));
    }

    void jobAdded(Registration registration) {
        if (leave == null) jobs.add(registration, link == Link.LIVE);
    }

    void jobRemoved(Now now, String job) {
        out.note(Level.INFO, "job " + job + " is given up");
        jobs.giveUp(job, link == Link.LIVE);
        leaveWithoutJobs(now);
    }

    void received(Now now, long from, SessionResponse frame) {
        // Ignore frames of an abandoned stream.
        if (from != stream || (link != Link.GREETING && link != Link.LIVE)) return;
        lastFrame = now.boot();
        if (link == Link.GREETING) {
            if (frame.hasWelcome()) welcomed(now, frame.getWelcome());
            return;
        }
        switch (frame.getFrameCase()) {
            case HEARTBEAT_ACK -> acknowledged(now, frame.getHeartbeatAck().getSequence());
            case TRIGGER -> trigger(now, frame.getTrigger());
            case CANCEL -> cancel(now, frame.getCancel());
            case REPORT_ACK -> reports.acknowledged(frame.getReportAck());
            case REGISTERED -> {
                if (jobs.registered(frame.getRegistered())) lease.agreed(frame.getRegistered());
            }
            case REFUSED -> {
                jobs.refused(now.boot(), frame.getRefused());
                leaveWithoutJobs(now);
            }
            case ASSIGNMENT -> jobs.assigned(frame.getAssignment());
            case CALLBACK -> callbacks.asked(now.boot(), frame.getCallback());
            case DRAIN -> drain(now, frame.getDrain());
            case DRAINING -> {
                if (leave != null) leave.drainingCame();
            }
            case GOODBYE_ACK -> {
                if (leave != null && leave.saidGoodbye()) finish(leave.failure());
            }
            case SHUTDOWN -> shutdown(now, frame.getShutdown());
            // Ignore a second Welcome, and frames that this version does not know.
            default -> {}
        }
    }

    // ---- streams

    void open(Now now) {
        stream++;
        out.useStream(stream);
        server = route.take();
        link = Link.OPENING;
        linkBy = Times.after(now.boot(), settings.connectTimeout());
        out.add(new Effect.Open(stream, server));
    }

    private void greet(Now now) {
        link = Link.GREETING;
        linkBy = Times.after(now.boot(), WELCOME);
        helloSent = now.boot();
        lease.beginStream();
        delay.forget();
        Hello.Builder hello = Hello.newBuilder()
                .setNamespace(settings.namespace())
                .setWorkerId(workerId)
                .setResumeKey(resumeKey)
                .setStreamNumber(stream)
                .setAddress(settings.address())
                .putAllLabels(settings.labels())
                .setSlots(settings.slots())
                .addAllRunsInFlight(inFlight.refs())
                .setClient("rosterd-java/" + VERSION)
                .setSentAt(Times.stamp(now.wall()))
                .addAllJobs(jobs.agreed())
                .setHoldsTriggers(true);
        if (!workerId.isEmpty()) hello.addAllJobsAsked(jobs.onlyAsked());
        out.send(SessionRequest.newBuilder().setHello(hello));
    }

    private void welcomed(Now now, Welcome welcome) {
        boolean same = workerId.isEmpty() || workerId.equals(welcome.getWorkerId());
        if (!same) {
            out.note(Level.WARN, workerId + " had been marked dead: going on as " + welcome.getWorkerId());
            inFlight.disown(now);
        }
        workerId = welcome.getWorkerId();
        resumeKey = welcome.getResumeKey();
        instanceId = welcome.getInstanceId();
        int most = welcome.getMaxUnacknowledgedReports();
        // An unsigned number: more than half of its range is negative here.
        credits = most < 0 ? Integer.MAX_VALUE : Math.max(1, most);
        rejections = 0;
        lease.welcomed(helloSent, welcome, same);
        List<String> refused = route.learn(welcome.getCoordinatorsList());
        if (!refused.isEmpty()) {
            out.note(
                    Level.WARN,
                    "passing over " + String.join(", ", refused) + ", which only " + server
                            + " named: give it as a server too, or name who may vouch for it (ROSTERD_CA)");
        }
        link = Link.LIVE;
        linkBy = Times.NEVER;
        callbacks.attached();
        inFlight.sayOffsetsAgain();
        lastHeartbeat = helloSent;
        lastRenewed = now.boot();
        out.note(Level.INFO, "connected to " + server + " as " + instanceId);
        out.add(new Effect.Attached(server, instanceId));
        if (leave == null) jobs.registerAll();
        else leave.newStream();
    }

    private void lose(Now now, String code, String detail) {
        String reason = code.isEmpty() ? detail : code + ": " + detail;
        out.add(new Effect.Close(stream));
        String failed = link == Link.LIVE ? "disconnected from" : "cannot connect to";
        if (link == Link.LIVE) out.add(new Effect.Detached(server, reason));
        link = Link.DOWN;
        callbacks.detached();
        inFlight.dropUnstarted();
        boolean isFinal = FINAL.contains(code);
        rejections = isFinal && workerId.isEmpty() ? rejections + 1 : 0;
        if (rejections >= route.size()) {
            finish(new RejectedException(code, detail));
            return;
        }
        long pause = route.lost(leave == null ? settings.longestDelay() : LONGEST_DELAY_LEAVING);
        linkBy = Times.after(now.boot(), pause);
        out.note(
                isFinal ? Level.ERROR : Level.WARN,
                String.format("%s %s: %s; retrying in %.1fs", failed, server, reason, pause / 1e9));
        if (pause == 0) open(now);
    }

    private void acknowledged(Now now, long sequence) {
        Long sent = lease.acknowledged(sequence);
        if (sent == null) return;
        route.good();
        lastRenewed = now.boot();
        out.add(new Effect.Renewed(now.boot() - sent));
    }

    // ---- jobs and runs

    private void trigger(Now now, Trigger trigger) {
        if (!trigger.hasRun()) return;
        Instant fire = trigger.hasFireTime() ? Times.instant(trigger.getFireTime()) : null;
        long startsIn = Times.nanos(trigger.getStartsIn());
        String job = trigger.getRun().getJob();
        inFlight.take(
                now,
                new InFlight.Offer(
                        trigger,
                        stream,
                        instanceId,
                        jobs.props(job),
                        startsIn > 0 ? delay.remainingWait(now.boot(), fire, startsIn) : 0,
                        objection(now, job)));
    }

    /** Reasons not to start a run, except those from the runs in flight. */
    private String objection(Now now, String job) {
        if (!lease.valid(now.boot())) return "the lease has expired";
        if (!jobs.serves(job)) return "this worker is not registered for the job";
        if (leave == null) return "";
        if (now.boot() >= leave.drainBy()) return "the worker is leaving";
        // The coordinator hands back runs that the records still assign to it: they may start elsewhere at any moment.
        return leave.saidGoodbye() ? "the worker has said goodbye" : "";
    }

    private void cancel(Now now, Cancel cancel) {
        CancelReason reason = switch (cancel.getReason()) {
            case CANCEL_REASON_FENCED -> CancelReason.FENCED;
            case CANCEL_REASON_TIMED_OUT -> CancelReason.TIMED_OUT;
            default -> CancelReason.OPERATOR;
        };
        if (cancel.hasRun()) inFlight.cancel(now, RunKey.of(cancel.getRun()), reason);
    }

    private void shutdown(Now now, Shutdown shutdown) {
        String why = "an operator shut this worker down: " + shutdown.getMessage();
        if (shutdown.getJob().isEmpty()) {
            begin(now, null, why, null);
        } else {
            out.note(Level.WARN, "an operator shut " + shutdown.getJob() + " down here: " + shutdown.getMessage());
            jobs.giveUp(shutdown.getJob(), true);
            leaveWithoutJobs(now);
        }
    }

    // ---- leaving

    private void drain(Now now, Drain drain) {
        Long grace = drain.hasGrace() ? Times.nanos(drain.getGrace()) : null;
        begin(now, grace, "the coordinator asks to leave: " + drain.getMessage(), null);
    }

    private void leaveWithoutJobs(Now now) {
        if (jobs.noneLeft()) begin(now, null, "no job is left", jobs.refusal());
    }

    private void begin(Now now, Long grace, String why, RosterdException failure) {
        long drainBy = Times.after(now.boot(), grace == null ? settings.drainTimeout() : Math.max(0, grace));
        if (leave != null) {
            leave.sooner(drainBy);
            return;
        }
        out.note(Level.INFO, "leaving: " + why);
        leave = new Leave(drainBy, failure);
        jobs.offerNoMore();
        out.add(new Effect.Leaving());
    }

    private boolean nothingInFlight() {
        return inFlight.isEmpty() && !callbacks.any();
    }

    /** When to try another coordinator, once nothing is in flight. */
    private long farewellBy() {
        return link == Link.LIVE ? leave.farewellBy() : Times.NEVER;
    }

    private void finish(RosterdException failure) {
        if (link != Link.DOWN) out.add(new Effect.Close(stream));
        link = Link.OVER;
        out.add(new Effect.Finish(failure));
    }

    // ---- time

    private void expire(Now now) {
        long boot = now.boot();
        if (!lease.valid(boot)) inFlight.stopAll(now, CancelReason.LEASE_EXPIRED);
        inFlight.expire(now, lease.valid(boot));
        callbacks.expire(boot);
        if (leave != null) expireLeave(now);
        switch (link) {
            case DOWN -> {
                if (boot >= linkBy) open(now);
            }
            case OPENING, GREETING -> {
                if (boot >= linkBy) lose(now, "", "no answer in time");
            }
            case LIVE -> {
                if (boot >= deadAt()) {
                    lose(now, "", "silent for too long");
                } else {
                    if (boot >= nextHeartbeat()) heartbeat(now);
                    jobs.offerAgain(boot);
                }
            }
            case OVER -> {}
        }
    }

    private void expireLeave(Now now) {
        if (now.boot() >= leave.drainBy()) {
            inFlight.stopAll(now, CancelReason.LEAVING);
            callbacks.abandon();
        }
        if (now.boot() >= leave.limit(settings.leaveTimeout())) {
            String late = "no coordinator has acknowledged the goodbye in time: runs in flight count as crashed";
            finish(leave.failure() == null ? new LeaveTimedOutException(late) : leave.failure());
        } else if (now.boot() >= farewellBy()) {
            lose(now, "", "no answer to the goodbye");
        }
    }

    /** When the stream counts as dead: no frame arrives, or none renews the lease before its end. */
    private long deadAt() {
        long patience = lease.patience();
        return Math.min(lastFrame + patience, Math.max(lease.stopsAt(), lastRenewed + patience));
    }

    private long nextHeartbeat() {
        return lastHeartbeat + lease.interval();
    }

    private void heartbeat(Now now) {
        lastHeartbeat = now.boot();
        out.send(SessionRequest.newBuilder()
                .setHeartbeat(Heartbeat.newBuilder()
                        .setSequence(lease.heartbeat(now.boot()))
                        .addAllRunsInFlight(inFlight.refs())
                        .setLease(Times.span(lease.length()))));
    }

    // ---- after every event

    /** Sends what the coordinator does not know yet: level-triggered, so nothing depends on the event. */
    private void settle(Now now) {
        if (link == Link.LIVE) {
            inFlight.sendStarted();
            inFlight.sendProgress(now);
            reports.send(stream, credits);
        }
        if (leave != null) settleLeave(now);
    }

    private void settleLeave(Now now) {
        leave.rest(now.boot(), nothingInFlight());
        if (workerId.isEmpty() && (link == Link.DOWN || link == Link.OPENING)) {
            // Never attached: there is no coordinator to say goodbye to.
            finish(leave.failure());
            return;
        }
        if (link != Link.LIVE) return;
        if (leave.ask(now.boot())) {
            out.send(SessionRequest.newBuilder().setDrainRequest(DrainRequest.getDefaultInstance()));
        }
        if (nothingInFlight() && leave.sayGoodbye(now.boot())) {
            out.send(SessionRequest.newBuilder().setGoodbye(Goodbye.getDefaultInstance()));
        }
    }

    private boolean over() {
        return link == Link.OVER;
    }
}
