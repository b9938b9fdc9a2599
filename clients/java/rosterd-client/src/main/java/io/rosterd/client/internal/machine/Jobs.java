package io.rosterd.client.internal.machine;

import io.rosterd.client.JobRefusedException;
import io.rosterd.v1.Assignment;
import io.rosterd.v1.ConfigDifference;
import io.rosterd.v1.Refused;
import io.rosterd.v1.Register;
import io.rosterd.v1.Registered;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.Unregister;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.slf4j.event.Level;

/** The jobs of this worker, and the state of each at the coordinators: requested, registered, refused, given up. */
final class Jobs {
    /** A refused job is offered again after this, in case an operator has fixed it. */
    private static final long OFFER_AGAIN = Times.millis(30_000);

    private enum State {
        ASKED,
        REGISTERED,
        REFUSED,
        GIVEN_UP
    }

    private static final class Job {
        final Registration registration;
        State state = State.ASKED;
        /** It was requested, on this stream or an earlier one. */
        boolean asked;
        /** A coordinator has agreed to it, on this stream or an earlier one. */
        boolean agreed;
        /** The last refusal. */
        JobRefusedException refusal;

        long offerAt = Times.NEVER;
        /** The fields in which its config differs from the store, as last reported. */
        String differences = "";
        /** As last received; they outlive the stream. */
        Map<String, String> props = Map.of();

        Job(Registration registration) {
            this.registration = registration;
        }

        boolean inAgreement() {
            return agreed && state != State.GIVEN_UP;
        }
    }

    private final Map<String, Job> jobs = new LinkedHashMap<>();
    private final Outbox out;

    Jobs(List<Registration> registrations, Outbox out) {
        this.out = out;
        registrations.forEach(registration -> jobs.put(registration.job(), new Job(registration)));
    }

    // ---- for Hello and for Triggers

    List<String> agreed() {
        return names(Job::inAgreement);
    }

    /** It is not known whether their coordinator received these, and runs that it assigned take slots here. */
    List<String> onlyAsked() {
        return names(job -> job.asked && !job.inAgreement());
    }

    private List<String> names(Predicate<Job> wanted) {
        return jobs.values().stream()
                .filter(wanted)
                .map(job -> job.registration.job())
                .toList();
    }

    boolean serves(String name) {
        Job job = jobs.get(name);
        return job != null && (job.state == State.ASKED || job.state == State.REGISTERED);
    }

    Map<String, String> props(String name) {
        Job job = jobs.get(name);
        return job == null ? Map.of() : job.props;
    }

    // ---- frames to the coordinator

    /** After every Welcome. */
    void registerAll() {
        for (Job job : jobs.values()) {
            job.offerAt = Times.NEVER;
            // The previous coordinator may have died before it handled the Unregister.
            if (job.state == State.GIVEN_UP) unregister(job);
            else register(job);
        }
    }

    void offerAgain(long boot) {
        for (Job job : jobs.values()) if (boot >= job.offerAt) register(job);
    }

    void offerNoMore() {
        for (Job job : jobs.values()) job.offerAt = Times.NEVER;
    }

    long nextOffer() {
        long next = Times.NEVER;
        for (Job job : jobs.values()) next = Math.min(next, job.offerAt);
        return next;
    }

    void add(Registration registration, boolean live) {
        Job job = new Job(registration);
        if (jobs.putIfAbsent(registration.job(), job) == null && live) register(job);
    }

    private void register(Job job) {
        job.state = State.ASKED;
        job.asked = true;
        job.offerAt = Times.NEVER;
        Registration wanted = job.registration;
        out.send(SessionRequest.newBuilder()
                .setRegister(Register.newBuilder()
                        .setJob(wanted.job())
                        .setHandlerType(wanted.handlerType())
                        .setConfig(wanted.config())
                        .setOverwrite(wanted.overwrite())));
    }

    /** Items may have been given to this worker after the shutdown was decided. */
    private void unregister(Job job) {
        out.send(SessionRequest.newBuilder()
                .setUnregister(Unregister.newBuilder().setJob(job.registration.job())));
    }

    // ---- frames from the coordinator

    /** Whether the frame is about a job of this worker. */
    boolean registered(Registered registered) {
        Job job = jobs.get(registered.getJob());
        if (job == null || job.state == State.GIVEN_UP) return false;
        job.state = State.REGISTERED;
        job.agreed = true;
        job.refusal = null;
        job.offerAt = Times.NEVER;
        warnOfDifferences(job, registered.getConfigDifferencesList());
        String next = registered.hasNextFireIn()
                ? "next fire in " + registered.getNextFireIn().getSeconds() + "s"
                : "no scheduled time to come";
        out.note(
                Level.INFO,
                "job " + registered.getJob() + ": " + registered.getShardingTotalCount() + " items, " + next);
        return true;
    }

    /** The config of this worker has no effect: warns once for each set of differences. */
    private void warnOfDifferences(Job job, List<ConfigDifference> found) {
        String differences = found.stream()
                .map(one -> one.getField() + " is " + (one.hasStored() ? one.getStored() : "(none)")
                        + " in the store and " + (one.hasOffered() ? one.getOffered() : "(none)") + " here")
                .collect(Collectors.joining(", "));
        boolean same = differences.equals(job.differences);
        job.differences = differences;
        if (same || differences.isEmpty()) return;
        out.note(
                Level.WARN,
                "the config of job " + job.registration.job() + " is ignored, since the job exists: " + differences
                        + "; register it with overwrite, or change the job by `rosterd jobs apply`");
    }

    void refused(long boot, Refused refused) {
        Job job = jobs.get(refused.getJob());
        if (job == null || job.state == State.GIVEN_UP) return;
        var refusal = new JobRefusedException(refused.getJob(), refused.getCode(), refused.getMessage());
        boolean said = job.refusal != null && job.refusal.getMessage().equals(refusal.getMessage());
        job.state = State.REFUSED;
        job.offerAt = Times.after(boot, OFFER_AGAIN);
        job.refusal = refusal;
        if (!said) out.note(Level.ERROR, refusal.getMessage() + " (offered again from time to time)");
    }

    void giveUp(String name, boolean live) {
        Job job = jobs.get(name);
        if (job == null || job.state == State.GIVEN_UP) return;
        job.state = State.GIVEN_UP;
        job.offerAt = Times.NEVER;
        if (live) unregister(job);
    }

    void assigned(Assignment assignment) {
        out.note(Level.DEBUG, "items of " + assignment.getJob() + ": " + assignment.getItemsList());
        Job job = jobs.get(assignment.getJob());
        if (job == null) return;
        job.props = Map.copyOf(assignment.getPropsMap());
        out.add(new Effect.Assigned(assignment.getJob(), List.copyOf(assignment.getItemsList())));
    }

    // ---- no job is left

    boolean noneLeft() {
        return jobs.values().stream().allMatch(job -> job.state == State.REFUSED || job.state == State.GIVEN_UP);
    }

    /** The refusal of the first refused job; null: none was refused. */
    JobRefusedException refusal() {
        return jobs.values().stream()
                .filter(job -> job.state == State.REFUSED)
                .map(job -> job.refusal)
                .findFirst()
                .orElse(null);
    }
}
