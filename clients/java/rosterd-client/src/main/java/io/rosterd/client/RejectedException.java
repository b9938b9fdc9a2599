package io.rosterd.client;

/** Every coordinator rejected this worker before any welcomed it: its credential, namespace or Hello is wrong. */
public final class RejectedException extends RosterdException {
    private static final long serialVersionUID = 1L;

    /** The name of the status. */
    private final String code;

    /**
     * Makes one.
     *
     * @param code the name of a gRPC status, for example {@code UNAUTHENTICATED}
     * @param detail what the coordinator said
     */
    public RejectedException(String code, String detail) {
        super("the coordinator rejected this worker: " + code + ": " + detail);
        this.code = code;
    }

    /** {@return the name of a gRPC status, for example {@code UNAUTHENTICATED}} */
    public String code() {
        return code;
    }
}
