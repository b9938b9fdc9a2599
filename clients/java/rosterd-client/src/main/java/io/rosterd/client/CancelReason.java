package io.rosterd.client;

/** Why a run must stop. */
public enum CancelReason {
    /** An operator asked for it. */
    OPERATOR("an operator asked for it"),
    /** The job's timeout has passed. */
    TIMED_OUT("the run timed out"),
    /** The worker is leaving, and the drain deadline has passed: another worker takes over the run. */
    LEAVING("the worker is leaving"),
    /** The lease expired: another worker may run the item. */
    LEASE_EXPIRED("the lease expired"),
    /** Another run of the item took this one's place. */
    FENCED("another run of the item took its place"),
    /** The coordinator had marked this worker dead: it does not accept a report of this run. */
    MARKED_DEAD("the worker had been marked dead");

    private final String text;

    CancelReason(String text) {
        this.text = text;
    }

    /** {@return the reason for people} */
    public String text() {
        return text;
    }
}
