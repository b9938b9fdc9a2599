package io.rosterd.client;

/** The coordinator refused a job, and the worker has no other. */
public final class JobRefusedException extends RosterdException {
    private static final long serialVersionUID = 1L;

    /** The job's name. */
    private final String job;
    /** The code of the refusal. */
    private final String code;

    /**
     * Makes one.
     *
     * @param job the job's name
     * @param code a code of the table of error codes, for example {@code JOB_UNKNOWN}
     * @param detail what the coordinator said
     */
    public JobRefusedException(String job, String code, String detail) {
        super("job '" + job + "' was refused: " + code + ": " + detail);
        this.job = job;
        this.code = code;
    }

    /** {@return the job's name} */
    public String job() {
        return job;
    }

    /** {@return a code of the table of error codes, for example {@code JOB_UNKNOWN}} */
    public String code() {
        return code;
    }
}
