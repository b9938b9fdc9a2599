package io.rosterd.client;

/** The worker had to leave, and no coordinator acknowledged its goodbye in time: runs in flight count as crashed. */
public final class LeaveTimedOutException extends RosterdException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what was waited for
     */
    public LeaveTimedOutException(String message) {
        super(message);
    }
}
